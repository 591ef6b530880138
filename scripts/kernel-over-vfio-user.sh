#!/usr/bin/env bash
# Lets a stock Linux kernel in a virtual machine own a drive that flashloom serves by vfio-user, as
# a PCIe drive of its own nvme driver, and reports the results of the checks.
#
#   GUEST=PROGRAM scripts/kernel-over-vfio-user.sh [block|zns|control]...
#
# Without an argument all three parts run. `block`: the commands of nvme-cli, a verified load,
# resets of the controller under another load; ext4, XFS, Btrfs and F2FS (make, mount, copy, mount
# again, compare, check); the data in a machine that is started after a restart of the server.
# `zns`: reports of zones, and a verified load. `control`: another client changes one byte of the
# drive behind the machine's back, which the machine must detect.
#
# GUEST names a program that boots a Linux of 6.12 or later in QEMU 10.1 or later, with
# nvme-cli, fio and the programs of those file systems, and runs a script in it as root:
#
#   MACHINE=TYPE GUEST -t SECONDS -m MIB -o DIR -M MODULE,… -a ARGUMENTS SCRIPT
#
# MACHINE: the type of the machine. -o: DIR of this machine is /out there. -M: modules to load
# first. -a: arguments for QEMU. Its exit code is that of the script. Without such a program nothing
# is checked, and the script reports that.
#
# FLASHLOOM selects another flashloom than target/release's. `control` needs qemu-io. Takes about
# two minutes if the guest has a processor of its own.
set -euo pipefail

# shellcheck source=kernel-over.sh
. "$(dirname "$0")/kernel-over.sh"

all="block zns control"
slot=$work/slot
mib=1024
head='D=$(ls /dev/by-serial/FL*-1 | head -1)
D=$(readlink -f "$D")
C=${D%n1}
[ -b "$D" ] || stop "no drive"'

serve() { served vfio-user --vfio-user "$slot" "$@"; }

machine() {
  MACHINE=q35,memory-backend=ram "$GUEST" -t 600 -m $mib -o "$work/out" -M "$1" \
    -a "-object memory-backend-memfd,id=ram,size=${mib}M,share=on" \
    -a "-device {\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"$slot\"}}" \
    "$work/script"
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

# The machine writes, and another client changes one byte over another front.
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

parts "$@"
