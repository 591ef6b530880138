#!/usr/bin/env bash
# Cuts the power before every event of every sequence of the corpus `ace`, on every file system.
#
#   scripts/every-sequence.sh OUT [SEQ [STACK…]]
#
# OUT is a folder with one document for each stack and part of the corpus. A part that has one
# is not run again, so an interrupted run goes on where it was. SEQ is the number of calls of a
# sequence, 3 if it is not given; `ace:seq=3` takes days.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:?usage: scripts/every-sequence.sh OUT [SEQ [STACK…]]}
seq=${2:-3}
shift "$(($# < 2 ? $# : 2))"
stacks=("$@")
if [ $# -eq 0 ]; then
    stacks=(ext4@block f2fs@block f2fs@zns persimmon@zns btrfs@block btrfs@ocssd hyfim@ocssd
        nova@byte pmfs@byte bytefs@byte bytefs-dual@byte bytefs-log@byte)
fi
parts=100
flashloom=${FLASHLOOM:-target/release/flashloom}

mkdir -p "$out"
# Part by part, so that an interrupted run has tried as much on each file system.
for part in $(seq 1 $parts); do
    for stack in "${stacks[@]}"; do
        # Drives of zones keep the size that `crash` gives them: some zones hold metadata alone.
        case $stack in *@zns) size=() ;; *) size=(--size 64MiB) ;; esac
        document="$out/$stack-$seq-$part.json"
        [ -s "$document" ] && continue
        status=0
        "$flashloom" crash "$stack" --points all --outside 0 "${size[@]}" --json \
            --workload "ace:seq=$seq,every=$parts,from=$part" >"$document.part" || status=$?
        [ $status -le 1 ] || exit $status
        mv "$document.part" "$document"
    done
done
