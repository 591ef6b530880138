#!/usr/bin/env bash
# Runs the kernel's own file systems and fio on a drive that flashloom serves, and reports the
# results of the checks and the speed.
#
#   scripts/kernel-on-drive.sh [checks|speed]
#
# Without an argument both parts run. `checks`: ext4, XFS and Btrfs on a loop device over the drive
# (make, mount, copy, unmount, check, mount again, compare, trim, discard), the death of the process
# under a mounted ext4, and fio's verification with three engines, on the file and on the loop
# device. `speed`: requests per second of 4 KiB at depth 1 and 32 and bytes per second of 1 MiB, on
# both.
#
# FLASHLOOM selects another flashloom than target/release's; SIZE another size of the drive than 512
# MiB. Needs root, FUSE, loop devices, bash, awk, fio, util-linux, fuse3, e2fsprogs, and for the
# other file systems xfsprogs and btrfs-progs (missing ones are skipped and named). Loop devices and
# mounts are removed at the end, also after a failure. Takes about two minutes.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

size=${SIZE:-512MiB}
what=${1:-all}

case $what in all | checks | speed) ;; *) stop "expected checks or speed, found $what" ;; esac
built
root "loop devices and mounts"
for file in /dev/fuse /dev/loop-control; do
  [ -e $file ] || stop "there is no $file here"
done
need awk fio losetup blkdiscard fstrim fusermount3 mkfs.ext4 md5sum timeout

work=$(mktemp -d)
device=
mkdir "$work/drive" "$work/fs"

clean() {
  umount -l "$work/fs" 2>/dev/null || true
  [ -z "$device" ] || losetup -d "$device" 2>/dev/null || true
  fusermount3 -u -z "$work/drive" 2>/dev/null || true
  saved
  rm -rf "$work"
}

# Waits until the process that served the drive has saved it: that continues after its file has
# disappeared.
saved() {
  for _ in $(seq 600); do
    pgrep -f "serve $work/d.flash " >/dev/null || return 0
    sleep 0.1
  done
}
trap clean EXIT

serve() {
  timeout 60 "$flashloom" serve "$work/d.flash" --file "$work/drive" --background
}

create() {
  "$flashloom" drive create "$work/d.flash" --size "$size" --force >/dev/null
  serve
}

attach() {
  device=$(losetup --direct-io=on -b 4096 --show -f "$work/drive/drive")
}

detach() {
  losetup -d "$device"
  device=
}

# A loop device releases its file a moment after it is detached.
leave() {
  for _ in $(seq 100); do
    if fusermount3 -u "$work/drive" 2>/dev/null; then
      saved
      return
    fi
    sleep 0.05
  done
  stop "the drive stays in use"
}

sums() {
  (cd "$work/fs" && find . -type f -print0 | sort -z | xargs -0 md5sum)
}

fill() {
  cp -r "$repository/core" "$repository/lab" "$repository/flashloom" "$work/fs/"
  dd if=/dev/urandom of="$work/fs/random" bs=1M count=64 status=none
}

# file_system NAME MAKE... CHECK: CHECK is one word with its options.
file_system() {
  local name=$1 check=$2
  shift 2
  if ! command -v "$1" >/dev/null; then
    echo "$name: skipped, $1 is not installed"
    return
  fi
  create
  attach
  timeout 60 "$@" "$device" >/dev/null
  mount "$device" "$work/fs"
  fill
  sums >"$work/before"
  umount "$work/fs"
  timeout 60 $check "$device" >/dev/null 2>&1 || stop "$name: $check is not content"
  mount "$device" "$work/fs"
  echo 3 >/proc/sys/vm/drop_caches
  sums | cmp -s - "$work/before" || stop "$name: other contents after mounting again"
  rm -r "$work/fs/core" "$work/fs/random"
  timeout 60 fstrim "$work/fs"
  sums >"$work/before"
  umount "$work/fs"
  detach
  leave
  serve
  attach
  mount "$device" "$work/fs"
  sums | cmp -s - "$work/before" || stop "$name: other contents after a shutdown"
  umount "$work/fs"
  timeout 60 blkdiscard -f "$device" 2>/dev/null
  detach
  leave
  local mapped
  mapped=$("$flashloom" drive info "$work/d.flash" --json | awk -F'[:,]' '/mapped_bytes/ { print $2 + 0 }')
  [ "$mapped" = 0 ] || stop "$name: $mapped bytes are left after discarding all"
  echo "$name: right"
}

# The process dies during writes to ext4; the journal and synced data must be present afterwards.
death() {
  create
  attach
  timeout 60 mkfs.ext4 -q "$device"
  mount "$device" "$work/fs"
  fill
  sync -f "$work/fs"
  sums >"$work/before"
  (while echo more >>"$work/fs/log" 2>/dev/null && sync "$work/fs/log" 2>/dev/null; do :; done) &
  local writer=$!
  sleep 1
  local pid
  for pid in $(pgrep -x flashloom); do
    grep -qa "$work/d.flash" "/proc/$pid/cmdline" && kill -9 "$pid"
  done
  wait "$writer" || true
  umount -l "$work/fs"
  detach
  fusermount3 -u -z "$work/drive"
  sleep 0.5
  serve
  attach
  mount "$device" "$work/fs"
  rm -f "$work/fs/log"
  sums | cmp -s - "$work/before" || stop "ext4: what was synced is not there after a kill"
  umount "$work/fs"
  timeout 60 e2fsck -fn "$device" >/dev/null 2>&1 || stop "ext4: e2fsck is not content after a kill"
  detach
  leave
  echo "ext4 after kill -9: right"
}

verify() {
  local on=$1 target=$2 engine
  for engine in psync libaio io_uring; do
    timeout 120 fio --name=verify --filename="$target" --size=128M --ioengine=$engine \
      --iodepth=16 --direct=1 --rw=randwrite --bsrange=4k-64k --bs_is_seq_rand=0 \
      --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=7 --minimal >"$work/fio" 2>&1 ||
      stop "fio on the $on with $engine: $(tail -1 "$work/fio")"
    echo "fio on the $on with $engine: verified"
  done
}

rate() {
  local on=$1 target=$2 name=$3 field=$4 unit=$5
  shift 5
  timeout 60 fio --name=speed --filename="$target" --size=256M --direct=1 --time_based \
    --runtime=3 --output-format=terse --terse-version=3 "$@" >"$work/fio" 2>/dev/null ||
    stop "fio on the $on: $*"
  awk -F';' -v on="$on" -v name="$name" -v unit="$unit" -v field="$field" \
    '{ printf "%-5s %-34s %10d %s\n", on, name, $field, unit }' "$work/fio"
}

speed() {
  local on=$1 target=$2
  # Fields of fio's terse output: IOPS of reads and writes, their KiB/s.
  rate "$on" "$target" "write 1 MiB, depth 4" 48 KiB/s --rw=write --bs=1M --ioengine=libaio --iodepth=4
  rate "$on" "$target" "read 1 MiB, depth 4" 7 KiB/s --rw=read --bs=1M --ioengine=libaio --iodepth=4
  rate "$on" "$target" "random read 4 KiB, depth 1" 8 IOPS --rw=randread --bs=4k --ioengine=psync
  rate "$on" "$target" "random read 4 KiB, depth 32" 8 IOPS --rw=randread --bs=4k --ioengine=io_uring --iodepth=32
  rate "$on" "$target" "random write 4 KiB, depth 1" 49 IOPS --rw=randwrite --bs=4k --ioengine=psync
  rate "$on" "$target" "random write 4 KiB, depth 32" 49 IOPS --rw=randwrite --bs=4k --ioengine=io_uring --iodepth=32
}

if [ "$what" != speed ]; then
  file_system ext4 "e2fsck -fn" mkfs.ext4 -q
  file_system xfs "xfs_repair -n" mkfs.xfs -q
  file_system btrfs "btrfs check" mkfs.btrfs -q
  death
  create
  verify file "$work/drive/drive"
  attach
  verify loop "$device"
  detach
  leave
fi
if [ "$what" != checks ]; then
  create
  speed file "$work/drive/drive"
  attach
  speed loop "$device"
  detach
  leave
fi
