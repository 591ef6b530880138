#!/usr/bin/env bash
# Measures a drive by the fio jobs that `flashloom calibrate` takes: a directory of fio's JSON
# outputs, one for each job. Reads alone by default, about 15 minutes. With --destroy also writes,
# about an hour: ALL DATA ON THE DEVICE ARE LOST. A drive that was never written answers reads from
# no flash, so --destroy fills it first; without it, measure a drive that holds data.
#
# usage: scripts/measure-drive.sh [--destroy] [--seconds N] DEVICE DIRECTORY
set -euo pipefail

destroy=false seconds=30
while [ $# -gt 2 ]; do
    case $1 in
    --destroy) destroy=true ;;
    --seconds) seconds=$2 && shift ;;
    *) break ;;
    esac
    shift
done
if [ $# -ne 2 ]; then
    echo "usage: $0 [--destroy] [--seconds N] DEVICE DIRECTORY" >&2
    exit 2
fi
device=$1 directory=$2
if ! command -v fio >/dev/null; then
    echo "fio is not installed (on Debian: apt-get install fio)" >&2
    exit 1
fi
if [ ! -b "$device" ] && [ ! -f "$device" ]; then
    echo "$device: expected a block device or a file" >&2
    exit 2
fi
if $destroy && grep -q "^$device[ 0-9p]" /proc/mounts; then
    echo "$device is mounted: unmount it before its data are overwritten" >&2
    exit 2
fi
mkdir -p "$directory"

# job RW BLOCK_SIZE DEPTH: one output in the directory, unless it is there from a run before.
job() {
    local name="$1-$2-$3"
    local output="$directory/$name.json"
    [ -s "$output" ] && return
    echo "$name" >&2
    fio --name="$name" --filename="$device" --rw="$1" --bs="$2" --iodepth="$3" --ioengine=libaio \
        --direct=1 --time_based --ramp_time=$((seconds / 3)) --runtime="$seconds" --norandommap \
        --randrepeat=0 "${readonly[@]}" --output-format=json --output="$output.part"
    mv "$output.part" "$output"
}

readonly=(--readonly)
if $destroy; then
    readonly=()
    echo "filling $device" >&2
    fio --name=fill --filename="$device" --rw=write --bs=1m --iodepth=32 --ioengine=libaio \
        --direct=1 --output=/dev/null
fi
for depth in 1 2 4 8 16 32 64 128; do
    job randread 4k $depth
done
for size in 16k 64k 128k; do
    job randread $size 1
    job randread $size 16
done
for size in 4k 128k; do
    job read $size 1
    job read $size 32
done
$destroy || exit 0
for size in 4k 128k; do
    job write $size 1
    job write $size 32
done
for size in 4k 16k; do
    job randwrite $size 1
    job randwrite $size 32
done
