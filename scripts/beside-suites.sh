#!/usr/bin/env bash
# Mounts ext4 of Flashloom on an emulated drive and lets suites of others judge it:
# pjdfstest (POSIX semantics), fsx (contents of a file) and e2fsck (the format).
#
#   scripts/beside-suites.sh
#
# FLASHLOOM names another flashloom than target/release's. Needs root, FUSE, fuse3,
# e2fsprogs, and the suites that are to run: `cargo install pjdfstest fsx` (one that
# is not there is skipped and named). The mount is taken away at the end, also after
# a failure. Takes about half a minute.
set -euo pipefail

repository=$(cd "$(dirname "$0")/.." && pwd)
flashloom=${FLASHLOOM:-$repository/target/release/flashloom}

stop() {
  echo "beside-suites: $*" >&2
  exit 1
}

[ -x "$flashloom" ] || stop "$flashloom is not built (cargo build --release)"
[ "$(id -u)" = 0 ] || stop "pjdfstest acts as several users and needs root"
for tool in e2fsck fusermount3 mkfs.ext4 timeout; do
  command -v "$tool" >/dev/null || stop "$tool is not installed"
done

work=$(mktemp -d)
chmod 755 "$work"
mkdir "$work/fs"

clean() {
  fusermount3 -u -z "$work/fs" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

truncate -s 256M "$work/fs.img"
mkfs.ext4 -q -b 4096 "$work/fs.img"
"$flashloom" drive create "$work/d.flash" --size 256MiB >/dev/null
"$flashloom" drive import "$work/d.flash" "$work/fs.img" >/dev/null
timeout 60 "$flashloom" mount ext4 "$work/d.flash" "$work/fs" --background

if command -v pjdfstest >/dev/null; then
  # Times of files advance in steps of 4 ms.
  cat >"$work/pjd.toml" <<'TOML'
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
stat_st_birthtime = {}

[settings]
naptime = 0.05
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["games", "games"]]
TOML
  mkdir "$work/fs/pjd"
  chmod 755 "$work/fs/pjd"
  timeout 240 pjdfstest -c "$work/pjd.toml" -p "$work/fs/pjd" >"$work/pjd.log" 2>&1 ||
    { grep -w FAILED "$work/pjd.log" >&2; stop "pjdfstest is not content"; }
  echo "pjdfstest: $(tail -1 "$work/pjd.log")"
else
  echo "pjdfstest: skipped, it is not installed"
fi

if command -v fsx >/dev/null; then
  cat >"$work/fsx.toml" <<'TOML'
flen = 1048576
[opsize]
max = 65536
[weights]
truncate = 2
fsync = 1
fdatasync = 1
punch_hole = 2
posix_fallocate = 1
copy_file_range = 2
invalidate = 1
close_open = 1
TOML
  for seed in 1 2 3; do
    (cd "$work" && timeout 120 fsx -q -N 4000 -S $seed -f fsx.toml "fs/fsx$seed" >fsx.log 2>&1) ||
      stop "fsx with seed $seed: $(tail -3 "$work/fsx.log")"
  done
  echo "fsx: 12000 operations right"
else
  echo "fsx: skipped, it is not installed"
fi

fusermount3 -u "$work/fs"
"$flashloom" drive export "$work/d.flash" "$work/out.img" >/dev/null
e2fsck -fn "$work/out.img" >"$work/e2fsck.log" 2>&1 || stop "$(cat "$work/e2fsck.log")"
echo "e2fsck: content"
