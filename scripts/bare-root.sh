#!/usr/bin/env bash
# Runs the two commands of the README where nothing is installed but git, gcc and Rust.
#
#   scripts/bare-root.sh FOLDER [COMMAND...]
#
# FOLDER becomes a minimal Debian root (debootstrap), or is one from an earlier run. The toolchain
# that builds here is copied into it, HEAD is cloned into it, and each COMMAND runs in that clone
# by chroot; by default the main command and the test command. Set CI to let the test command fail
# where a test would be skipped. Prints the time of each command; ends with the status of the first
# one that fails. Needs root, debootstrap, and a registry of Debian's packages, PyPI and crates.io.
set -euo pipefail
. "$(dirname "$0")/common.sh"

[ $# -ge 1 ] || stop "usage: bare-root.sh FOLDER [COMMAND...]"
root "new roots"
need debootstrap git rustc unshare
alone "$@"

mkdir -p "$1"
bare=$(cd "$1" && pwd)
shift
[ $# -ge 1 ] || set -- "cargo run --release -- compare" "cargo xtask check"

# The packages that the README lists, and the certificates with which cargo verifies crates.io.
if [ ! -e "$bare/etc/debian_version" ]; then
  debootstrap --variant=minbase --include=git,gcc,libc6-dev,ca-certificates \
    bookworm "$bare" http://deb.debian.org/debian >"$bare.log" || stop "debootstrap: see $bare.log"
fi
if [ ! -e "$bare/opt/rust" ]; then
  cp -a "$(cd "$repository" && rustc --print sysroot)" "$bare/opt/rust"
fi

# The network setup of this machine: name resolution, and its additional certificates.
cp /etc/resolv.conf /etc/hosts "$bare/etc/"
settings=(HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin)
if [ -r "${SSL_CERT_FILE:-}" ]; then
  cp "$SSL_CERT_FILE" "$bare/etc/ssl/of-the-machine.crt"
  for name in SSL_CERT_FILE CARGO_HTTP_CAINFO PIP_CERT; do
    settings+=("$name=/etc/ssl/of-the-machine.crt")
  done
fi
[ -z "${CI:-}" ] || settings+=("CI=$CI")

mount --bind "$bare" "$bare"
mount --rbind /dev "$bare/dev"
mount -t proc proc "$bare/proc"
mount -t sysfs sysfs "$bare/sys"

rm -rf "$bare/root/flashloom"
git clone --quiet --no-hardlinks "$repository" "$bare/root/flashloom"
for command in "$@"; do
  echo "== $command"
  begin=$SECONDS
  status=0
  chroot "$bare" env -i "${settings[@]}" sh -c "cd /root/flashloom && exec $command" </dev/null || status=$?
  echo "== $command: status $status after $((SECONDS - begin)) s"
  [ $status = 0 ] || exit $status
done
