#!/usr/bin/env bash
#
# kernel-traffic.sh - bytes that the kernel's ext4 writes to its device, by kind.
#
# Makes a sparse file, a loop device with direct I/O and 4 KiB sectors over it and
# an ext4 of 4 KiB blocks, mounts it, runs `COMMAND DIR` in it, syncs, and prints
# one line of JSON: bytes that reached the device as journal, metadata and data,
# and the number of flushes. The ground truth is the kernel's tracepoint
# block:block_rq_issue: a write into the blocks of inode 8 is the journal's, one
# that the kernel marked M is metadata, any other is data.
#
# Only traffic of COMMAND and of the sync after it is counted; PREPARE, if set, runs before, and its
# writes are synced before counting starts.
#
# Needs: root; Linux with tracefs, loop devices and ext4; util-linux, e2fsprogs, awk.
#
# Usage: [SIZE=1G] [OPTIONS=data=ordered] [PREPARE=...] kernel-traffic.sh COMMAND...

set -euo pipefail
export LC_ALL=C
SIZE=${SIZE:-1G}
OPTIONS=${OPTIONS:-data=ordered}
PREPARE=${PREPARE:-}
die() { echo "kernel-traffic: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "must run as root"
[ $# -gt 0 ] || die "expected a command to run in the directory that is its last argument"

WORK=$(mktemp -d "${TMPDIR:-/tmp}/kernel-traffic.XXXXXX")
LOOP='' INSTANCE='' OUR_TRACEFS='' READER=''
cleanup() {
  set +e
  # The instance is in use until its reader has ended.
  [ -n "$READER" ] && kill "$READER" 2>/dev/null && wait "$READER" 2>/dev/null
  [ -n "$INSTANCE" ] && { echo 0 >"$INSTANCE/tracing_on"; rmdir "$INSTANCE"; }
  [ -n "$OUR_TRACEFS" ] && umount /sys/kernel/tracing
  mountpoint -q "$WORK/mnt" && umount "$WORK/mnt"
  [ -n "$LOOP" ] && losetup -d "$LOOP"
  rm -rf "$WORK"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

truncate -s "$SIZE" "$WORK/disk.img"
LOOP=$(losetup --find --show --direct-io=on -b 4096 "$WORK/disk.img")
NAME=$(basename "$LOOP")
mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "$LOOP"
# Runs of blocks of the journal: "(0-1023):1234-2257" becomes "1234 2257".
debugfs -R 'stat <8>' "$LOOP" 2>/dev/null | tr ',' '\n' |
  sed -n 's/.*([0-9]*-[0-9]*):\([0-9]*\)-\([0-9]*\).*/\1 \2/p' >"$WORK/journal"
[ -s "$WORK/journal" ] || die "the journal's blocks were not found"
mkdir "$WORK/mnt"
mount -o "$OPTIONS" "$LOOP" "$WORK/mnt"
mkdir "$WORK/mnt/run"
chmod 777 "$WORK/mnt/run"
[ -z "$PREPARE" ] || eval "$PREPARE \"\$WORK/mnt/run\"" >&2
sync -f "$WORK/mnt"
sleep 1

T=/sys/kernel/tracing
if [ ! -d "$T/instances" ]; then mount -t tracefs tracefs "$T"; OUR_TRACEFS=yes; fi
INSTANCE=$T/instances/kernel-traffic.$$
mkdir "$INSTANCE"
echo 32768 >"$INSTANCE/buffer_size_kb"
IFS=: read -r MAJOR MINOR <"/sys/block/$NAME/dev"
echo "dev == $((MAJOR << 20 | MINOR))" >"$INSTANCE/events/block/block_rq_issue/filter"
echo 1 >"$INSTANCE/events/block/block_rq_issue/enable"
cat "$INSTANCE/trace_pipe" >"$WORK/raw" &
READER=$!
written() { awk '{ print $7 }' "/sys/block/$NAME/stat"; }
W0=$(written)
"$@" "$WORK/mnt/run" >&2
sync -f "$WORK/mnt"
W1=$(written)
sleep 1
echo 0 >"$INSTANCE/tracing_on"
while [ "$(cat "$INSTANCE"/per_cpu/cpu*/stats | awk '/^entries:/ { s += $2 } END { print s }')" != 0 ]; do sleep 0.2; done
sleep 0.5

awk -v counted="$((W1 - W0))" '
  FILENAME ~ /journal$/ { first[++runs] = $1 * 8; last[runs] = $2 * 8 + 7; next }
  match($0, /: block_rq_issue: /) {
    n = split(substr($0, RSTART + RLENGTH), f, " ")   # dev rwbs bytes () sector + sectors ...
    if (f[2] ~ /^F/) flushes++
    if (f[2] !~ /W/) next
    kind = f[2] ~ /M/ ? "metadata" : "data"
    for (i = 1; i <= runs; i++) if (f[5] >= first[i] && f[5] <= last[i]) kind = "journal"
    sectors[kind] += f[7]; requests[kind]++; all += f[7]
  }
  END {
    if (all != counted) { printf "kernel-traffic: %d sectors in the trace, %d by the kernel%cs count\n", all, counted, 39 >"/dev/stderr"; exit 1 }
    printf "{\"journal_bytes\":%d,\"metadata_bytes\":%d,\"data_bytes\":%d,\"flushes\":%d,\"requests\":%d}\n",
      sectors["journal"] * 512, sectors["metadata"] * 512, sectors["data"] * 512, flushes,
      requests["journal"] + requests["metadata"] + requests["data"]
  }' "$WORK/journal" "$WORK/raw"
