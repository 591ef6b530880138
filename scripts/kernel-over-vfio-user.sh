#!/usr/bin/env bash
# Lets a stock Linux kernel in a virtual machine own a drive that flashloom serves by
# vfio-user, as a PCIe drive of its own nvme driver, and says what held.
#
#   GUEST=PROGRAM scripts/kernel-over-vfio-user.sh [block|zns|control]...
#
# Without an argument it does all three. `block`: what nvme-cli asks, a verified load,
# resets of the controller under another one; ext4, XFS, Btrfs and F2FS (make, mount,
# copy, mount again, compare, check); what is there in a machine that is started after the
# server was. `zns`: reports of zones, a verified load, F2FS over both namespaces.
# `control`: a drive of which another client changes one byte behind the back of the
# machine, which has to be seen.
#
# GUEST names a program that boots a Linux of 6.12 or later in QEMU 10.1 or later, with
# nvme-cli, fio and the programs of those file systems, and runs a script in it as root:
#
#   MACHINE=TYPE GUEST -t SECONDS -m MIB -o DIR -M MODULE,… -a ARGUMENTS SCRIPT
#
# MACHINE: the type of the machine. -o: DIR of this machine is /out there. -M: modules to
# load first. -a: arguments for QEMU. Its exit code is that of the script. Without such a
# program nothing is checked, and the script says so.
#
# FLASHLOOM names another flashloom than target/release's. `control` needs qemu-io. Takes about
# four minutes.
set -euo pipefail

repository=$(cd "$(dirname "$0")/.." && pwd)
flashloom=${FLASHLOOM:-$repository/target/release/flashloom}
mib=1024

stop() {
  echo "kernel-over-vfio-user: $*" >&2
  exit 1
}

if [ -z "${GUEST:-}" ]; then
  echo "kernel-over-vfio-user: skipped, GUEST names no program that boots a Linux"
  exit 0
fi
[ -x "$flashloom" ] || stop "$flashloom is not built (cargo build --release)"
[ $# -gt 0 ] || set -- block zns control

work=$(mktemp -d)
slot=$work/slot
server=

clean() {
  off
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# serve OPTION...: serves the drive and waits until machines can have it.
serve() {
  "$flashloom" serve "$work/d.flash" --vfio-user "$slot" "$@" 2>"$work/told" &
  server=$!
  for _ in $(seq 100); do
    grep -q vfio-user "$work/told" && return
    kill -0 "$server" 2>/dev/null || stop "$(cat "$work/told")"
    sleep 0.1
  done
  stop "the drive is not served"
}

off() {
  [ -z "$server" ] && return
  kill "$server" 2>/dev/null || true
  wait "$server" || true
  server=
}

# boot NAME MODULES: runs the script on standard input in the guest. Its exit code.
boot() {
  {
    cat <<'HEAD'
set -u
D=$(ls /dev/by-serial/FL*-1 | head -1)
D=$(readlink -f "$D")
C=${D%n1}
stop() { echo "GUEST: $*"; exit 1; }
[ -b "$D" ] || stop "no drive"
says() { # says TEXT COMMAND...
  local text=$1; shift
  "$@" >/out/said 2>&1 || stop "$*: $(tail -1 /out/said)"
  grep -qE "$text" /out/said || stop "$* does not say $text"
}
verify() { # verify NAME OPTION...
  local name=$1; shift
  fio --name="$name" --filename=$D --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c \
    --verify_fatal=1 --verify_state_save=0 --randseed=7 --minimal "$@" >/out/fio 2>&1
}
sums() { (cd "$1" && find . -type f | sort | xargs md5sum); }
# round NAME MAKE... : makes a file system, fills it, and compares after another mount.
round() {
  local name=$1; shift
  "$@" >/out/said 2>&1 || stop "$name: $(tail -1 /out/said)"
  mkdir -p /mnt/a; mount -t "$name" $D /mnt/a || stop "$name is not mounted"
  cp -r /bin /mnt/a/ || stop "$name: no copy"
  sync; sums /mnt/a >/out/before
  rm -r /mnt/a/bin/b*; fstrim /mnt/a; sums /mnt/a >/out/before
  umount /mnt/a; mount -t "$name" $D /mnt/a || stop "$name is not mounted again"
  sums /mnt/a | cmp -s - /out/before || stop "$name: other contents after mounting again"
  umount /mnt/a
}
HEAD
    cat
  } >"$work/script"
  mkdir -p "$work/out"
  MACHINE=q35,memory-backend=ram "$GUEST" -t 600 -m $mib -o "$work/out" -M "$1" \
    -a "-object memory-backend-memfd,id=ram,size=${mib}M,share=on" \
    -a "-device {\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"$slot\"}}" \
    "$work/script" >"$work/console" 2>&1
}

guest() {
  if boot "$2"; then
    echo "$1: right"
  else
    tail -40 "$work/console" >&2
    stop "$1: failed"
  fi
}

create() {
  "$flashloom" drive create "$work/d.flash" --preset "$1" --size "$2" --force >/dev/null
}

block() {
  create block 1GiB
  serve
  guest "block: what nvme-cli asks, fio, resets, ext4, XFS, Btrfs, F2FS" nvme,ext4,xfs,btrfs,f2fs <<'SCRIPT'
says Flashloom nvme list
says "sn +: FL" nvme id-ctrl $C
says "lbads:12.*in use" nvme id-ns $D
says "available_spare.*100" nvme smart-log $C
says "LID 0x9 " nvme supported-log-pages $C
says "pcie" nvme list-subsys
head -c 8192 /dev/urandom >/tmp/x
says "Success" nvme write $D -s 100 -c 1 -z 8192 -d /tmp/x
says "Success" nvme compare $D -s 100 -c 1 -z 8192 -d /tmp/x
verify load --rw=randwrite --bsrange=4k-1m --size=64m || stop "$(tail -1 /out/fio)"
verify deep --rw=randrw --bs=4k --size=16m --iodepth=64 || stop "$(tail -1 /out/fio)"
(for i in 1 2 3; do sleep 1; nvme reset $C || exit 1; done) &
resets=$!
verify reset --rw=randwrite --bs=16k --offset=128m --size=32m || stop "over resets: $(tail -1 /out/fio)"
wait $resets || stop "a reset failed"
verify reset --rw=randwrite --bs=16k --offset=128m --size=32m --verify_only=1 || stop "after resets: $(tail -1 /out/fio)"
round ext4 mkfs.ext4 -q -F $D
round xfs mkfs.xfs -q -f $D
round btrfs mkfs.btrfs -q -f $D
round f2fs mkfs.f2fs -q -f $D
says "" fsck.f2fs --dry-run $D
SCRIPT
  off
  serve
  guest "block: what is there after a restart" nvme,f2fs <<'SCRIPT'
mkdir -p /mnt/a; mount -t f2fs $D /mnt/a || stop "mount"
sums /mnt/a | cmp -s - /out/before || stop "other contents after a restart"
umount /mnt/a
SCRIPT
  off
}

zns() {
  create zns 1GiB
  serve
  guest "zns: zones, fio" nvme <<'SCRIPT'
B=/sys/block/${D##*/}
grep -q host-managed $B/queue/zoned || stop "not zoned"
says "SEQ_WRITE_REQUIRED" blkzone report $D
blkzone reset $D
verify zones --zonemode=zbd --rw=write --bs=64k --size=48m --max_open_zones=4 || stop "$(tail -1 /out/fio)"
SCRIPT
  off
}

# The machine writes, and somebody else changes one byte over another front.
control() {
  create block 256MiB
  serve --nbd "unix:$work/nbd"
  boot nvme <<'SCRIPT' || stop "control: $(tail -3 "$work/console")"
verify keep --rw=write --bs=64k --size=8m --do_verify=0 || stop "$(tail -1 /out/fio)"
SCRIPT
  qemu-io -f raw -c 'write -P 0xaa 1000001 1' "nbd+unix:///?socket=$work/nbd" \
    >/dev/null || stop "control: nothing is changed"
  if boot nvme <<'SCRIPT'; then
verify keep --rw=write --bs=64k --size=8m --verify_only=1
SCRIPT
    stop "control: damage is not seen"
  fi
  grep -q "verify" "$work/out/fio" || stop "control: it fails for another reason"
  echo "control: damage is seen"
  off
}

for what in "$@"; do
  case $what in
    block | zns | control) "$what" ;;
    *) stop "expected block, zns or control, found $what" ;;
  esac
done
