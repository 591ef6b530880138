#!/usr/bin/env bash
# Runs the kernel's own file systems on a drive that flashloom serves with its addresses remapped,
# and reports the results of the checks.
#
#   scripts/kernel-on-remap.sh [NAME...]
#
# NAME is ext4, xfs, btrfs, f2fs or device; by default all run. A file system is made on a loop
# device over `serve --remap`. fio verifies random writes of 4 to 64 KiB with forces among them,
# while files are deleted and their blocks discarded; then the file system is unmounted and checked.
# After that the server is killed with `kill -9` under such writes, repeatedly: data forced before
# must be present, and the check must pass. `device`: fio on the loop device itself, with forced
# writes and discards, and the server killed after a force.
#
# Controls must fail, or the script stops: a check of the drive without the layer, and a
# verification of data of which one block was changed.
#
# FLASHLOOM selects another flashloom than target/release's, SIZE another size of the drive than 512
# MiB, KILLS the number of kills of the server (3), IO the size of each fio run (64M). Needs root,
# FUSE, loop devices, fio, util-linux, fuse3, and the tools of the file systems; missing ones are
# skipped and named. Mounts and loop devices are removed at the end, also after a failure.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

size=${SIZE:-512MiB}
kills=${KILLS:-3}
io=${IO:-64M}

built
root "loop devices and mounts"
for file in /dev/fuse /dev/loop-control; do
  [ -e $file ] || stop "there is no $file here"
done
need fio losetup blkdiscard fstrim fusermount3 timeout
alone "$@"

work=$(mktemp -d)
device=
server=
mkdir "$work/drive" "$work/fs"

clean() {
  umount -l "$work/fs" 2>/dev/null || true
  [ -z "$device" ] || losetup -d "$device" 2>/dev/null || true
  fusermount3 -u -z "$work/drive" 2>/dev/null || true
  [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

# serve [OPTION]: serves the drive, remapped unless OPTION replaces that.
serve() {
  "$flashloom" serve "$work/d.flash" --file "$work/drive" ${1---remap} 2>"$work/said" &
  server=$!
  for _ in $(seq 600); do
    [ ! -e "$work/drive/drive" ] || break
    kill -0 "$server" 2>/dev/null || stop "it is not served: $(cat "$work/said")"
    sleep 0.05
  done
  device=$(losetup --direct-io=on -b 4096 --show -f "$work/drive/drive")
}

create() {
  "$flashloom" drive create "$work/d.flash" --size "$size" --force >/dev/null
  serve
}

detach() {
  losetup -d "$device"
  device=
}

# Unmounts and detaches the drive; a loop device releases its file a moment after it is detached.
leave() {
  detach
  for _ in $(seq 200); do
    if fusermount3 -u "$work/drive" 2>/dev/null; then
      wait "$server" || stop "the server has failed: $(cat "$work/said")"
      server=
      return
    fi
    sleep 0.05
  done
  stop "the drive stays in use"
}

# Removes the mounts after the death of the server, which makes them useless.
die() {
  kill -9 "$server"
  wait "$server" 2>/dev/null || true
  server=
}

sweep() {
  umount -l "$work/fs" 2>/dev/null || true
  detach
  fusermount3 -u -z "$work/drive"
}

# run NAME FILE [OPTION...]: runs fio, whose data contain their own addresses.
run() {
  local name=$1 file=$2
  shift 2
  timeout 300 fio --name="$name" --filename="$file" --size="$io" --direct=1 --ioengine=libaio \
    --iodepth=16 --rw=randwrite --bsrange=4k-64k --verify=crc32c --verify_fatal=1 \
    --verify_state_save=0 --randseed=7 --minimal "$@" >"$work/fio" 2>&1
}

# check NAME: checks the file system on the device, which must not be mounted.
check() {
  case $1 in
    ext4) timeout 120 e2fsck -fn "$device" ;;
    xfs) timeout 120 xfs_repair -n "$device" ;;
    btrfs) timeout 120 btrfs check "$device" ;;
    f2fs) timeout 120 fsck.f2fs --dry-run "$device" ;;
  esac >"$work/check" 2>&1 || return 1
  # Its exit status is 0 even for defects.
  [ "$1" != f2fs ] || ! grep -q '\[ASSERT\]\|\[Fail\]' "$work/check"
}

content() {
  check "$1" || stop "$1: its check is not content $2: $(tail -3 "$work/check")"
}

# Writes, deletes and discards files until the server dies.
churn() {
  local round
  for ((round = 0; ; round++)); do
    dd if=/dev/urandom of="$work/fs/churn$((round % 8))" bs=64k count=40 conv=fsync status=none || return 0
    rm -f "$work/fs/churn$(((round + 4) % 8))" || return 0
    [ $((round % 5)) != 4 ] || fstrim "$work/fs" || return 0
  done
}

# file_system NAME MAKE...
file_system() {
  local name=$1 round churning
  shift
  if ! command -v "$1" >/dev/null; then
    echo "$name: skipped, $1 is not installed"
    return
  fi
  if ! grep -qw "$name" /proc/filesystems && ! modprobe -q "$name" 2>/dev/null; then
    without_kernel "$name" "$@"
    return
  fi
  create
  timeout 120 "$@" "$device" >/dev/null 2>&1 || stop "$name: it cannot be made"
  mount -o discard "$device" "$work/fs"
  run verify "$work/fs/verified" --fsync=32 || stop "$name: fio: $(tail -1 "$work/fio")"
  dd if=/dev/urandom of="$work/fs/gone" bs=1M count=48 conv=fsync status=none
  rm "$work/fs/gone"
  timeout 60 fstrim "$work/fs"
  run again "$work/fs/verified" --verify_only || stop "$name: after a trim: $(tail -1 "$work/fio")"
  umount "$work/fs"
  content "$name" "after it was unmounted"
  leave
  for ((round = 1; round <= kills; round++)); do
    serve
    mount -o discard "$device" "$work/fs" || stop "$name: it cannot be mounted again"
    run forced "$work/fs/forced$round" --end_fsync=1 || stop "$name: fio: $(tail -1 "$work/fio")"
    sync -f "$work/fs"
    churn 2>/dev/null &
    churning=$!
    sleep "1.$((round * 3 % 10))"
    die
    wait "$churning" 2>/dev/null || true
    sweep
    serve
    # The mount repairs the state after a cut, as after any crash.
    mount -o discard "$device" "$work/fs" || stop "$name: it cannot be mounted after a kill"
    run forced "$work/fs/forced$round" --verify_only ||
      stop "$name: what was forced is not there after a kill: $(tail -1 "$work/fio")"
    rm -f "$work/fs/forced$round" "$work/fs"/churn*
    run verify "$work/fs/verified" --verify_only || stop "$name: $(tail -1 "$work/fio")"
    umount "$work/fs"
    content "$name" "after a kill"
    leave
  done
  controls "$name"
  echo "$name: right, also after $kills times kill -9; what must fail does"
}

# without_kernel NAME MAKE...: for a kernel without the file system. The file system is made, filled
# if there is a tool for that, and must be unchanged after the server is killed.
without_kernel() {
  local name=$1
  shift
  create
  timeout 120 "$@" "$device" >/dev/null 2>&1 || stop "$name: it cannot be made"
  if [ "$name" = f2fs ] && command -v sload.f2fs >/dev/null; then
    timeout 120 sload.f2fs -f "$repository/core" "$device" >/dev/null 2>&1 ||
      stop "$name: it cannot be filled"
  fi
  blockdev --flushbufs "$device"
  content "$name" "after it was made"
  md5sum <"$device" >"$work/before"
  die
  sweep
  serve
  md5sum <"$device" | cmp -s - "$work/before" || stop "$name: what was forced is not there"
  content "$name" "after a kill"
  leave
  serve ""
  if check "$name"; then stop "$name: a check of the drive without its layer is content"; fi
  leave
  echo "$name: right as far as its tools go, as the kernel here does not have it"
}

# Controls, which must fail: the drive without its layer, and a changed block.
controls() {
  local name=$1
  serve ""
  if check "$name"; then stop "$name: a check of the drive without its layer is content"; fi
  leave
  serve
  mount "$device" "$work/fs"
  dd if=/dev/urandom of="$work/fs/verified" bs=4k count=1 seek=5 conv=notrunc,fsync status=none
  if run verify "$work/fs/verified" --verify_only; then
    stop "$name: a verification of changed data is content"
  fi
  umount "$work/fs"
  leave
}

# Block requests: forced writes and discards.
device() {
  local round
  create
  # fio 3.33 frees memory twice when it discards with several requests under way.
  run trims "$device" --ioengine=psync --iodepth=1 --trim_percentage=20 --trim_backlog=16 \
    --trim_verify_zero=1 --fsync=16 ||
    stop "device: with discards: $(tail -1 "$work/fio")"
  for ((round = 1; round <= kills; round++)); do
    run forced "$device" --end_fsync=1 --randseed="$round" || stop "device: $(tail -1 "$work/fio")"
    blockdev --flushbufs "$device"
    timeout 300 fio --name=unforced --filename="$device" --offset=192M --size="$io" --direct=1 \
      --ioengine=libaio --iodepth=16 --rw=randwrite --bs=4k --time_based --runtime=20 \
      --minimal >/dev/null 2>&1 &
    local writing=$!
    sleep "0.$((3 + round % 7))"
    die
    wait "$writing" 2>/dev/null || true
    sweep
    serve
    run forced "$device" --verify_only --randseed="$round" ||
      stop "device: what was forced is not there after a kill: $(tail -1 "$work/fio")"
  done
  dd if=/dev/urandom of="$device" bs=4k count=1 seek=9 oflag=direct status=none
  if run forced "$device" --verify_only --randseed="$kills"; then
    stop "device: a verification of changed data is content"
  fi
  timeout 60 blkdiscard -f "$device" 2>/dev/null
  cmp -s -n 64M "$device" /dev/zero || stop "device: what was discarded is not zeros"
  leave
  echo "device: right, also after $kills times kill -9; what must fail does"
}

[ $# -gt 0 ] || set -- ext4 xfs btrfs f2fs device
for name in "$@"; do
  case $name in
    ext4) file_system ext4 mkfs.ext4 -q ;;
    xfs) file_system xfs mkfs.xfs -q ;;
    btrfs) file_system btrfs mkfs.btrfs -q ;;
    f2fs) file_system f2fs mkfs.f2fs ;;
    device) device ;;
    *) stop "expected ext4, xfs, btrfs, f2fs or device, found $name" ;;
  esac
done
