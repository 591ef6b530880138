#!/usr/bin/env bash
#
# beside-kernel.sh - bytes that the kernel's ext4 and ours write for a program, by kind.
#
# Plays each WORKLOAD on the kernel's ext4 (kernel-traffic.sh and `flashloom play`)
# and runs it on ext4@block with the same seed, size of drive and features, and
# prints bytes written as journal, metadata and data by both, how many that is for
# each byte that the program writes (`per byte`), and model / kernel.
# A WORKLOAD may be a recorded trace (flashloom record). Without one: varmail and
# fileserver with one thread, where no batching of commits depends on how fast the
# device is, and with four, where it does.
#
# A loop device has no forced writes, so the kernel's commits take two flushes
# where ours take one and a forced write.
#
# On both sides the files that must be there first are made and synced before the
# counting begins, and the sync at the end is counted. To be comparable, a workload
# must end within 30 s on the kernel's side, before dirty pages are old, and must
# write less than a tenth of the smaller memory (1 GiB in the model), so that
# neither side writes back early; the script says how long both took.
#
# Needs: what kernel-traffic.sh needs; jq. FLASHLOOM names another flashloom
# than target/release's.
#
# Usage: [SIZE=1G] [SEED=1] [FLASHLOOM=...] beside-kernel.sh [WORKLOAD...]

set -euo pipefail
export LC_ALL=C
SIZE=${SIZE:-1G}
SEED=${SEED:-1}
HERE=$(dirname "$(readlink -f "$0")")
FLASHLOOM=${FLASHLOOM:-$HERE/../target/release/flashloom}
die() { echo "beside-kernel: $*" >&2; exit 1; }
command -v jq >/dev/null || die "jq is not there"
command -v "$FLASHLOOM" >/dev/null ||
  die "$FLASHLOOM is not there: cargo build --release makes it, FLASHLOOM names another"
FLASHLOOM=$(readlink -f "$(command -v "$FLASHLOOM")")
WORK=$(mktemp -d "${TMPDIR:-/tmp}/beside-kernel.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
[ $# -gt 0 ] || set -- varmail:files=1000,threads=1,ops=20000 \
  varmail:files=1000,threads=4,ops=20000 \
  fileserver:files=500,threads=1,ops=6000 \
  fileserver:files=500,threads=4,ops=6000

# One JSON object: bytes by kind, flushes, seconds.
kernel() {
  printf '#!/bin/sh\nexec "%s" play "%s" --seed %s --no-setup --json --on "$1" >"%s"\n' \
    "$FLASHLOOM" "$1" "$SEED" "$WORK/played" >"$WORK/command"
  chmod +x "$WORK/command"
  SIZE=$SIZE PREPARE="\"$FLASHLOOM\" play \"$1\" --seed $SEED --setup-only --on" \
    timeout 600 "$HERE/kernel-traffic.sh" "$WORK/command" >"$WORK/traffic"
  jq -c --slurpfile played "$WORK/played" '{journal: .journal_bytes, metadata: .metadata_bytes,
    data: .data_bytes, flushes, asked: $played[0].write_bytes, s: ($played[0].elapsed_ns / 1e9), ops: $played[0].ops}' "$WORK/traffic"
}

model() {
  timeout 600 "$FLASHLOOM" run ext4@block --workload "$1" --seed "$SEED" \
    --size "${SIZE}iB" --precondition fresh --json 2>/dev/null >"$WORK/run"
  jq -c '(.host.by_purpose | map_values(.write.block)) as $by
    | {journal: ($by.journal // 0), data: ($by.data // 0), flushes: .host.flushes,
       metadata: ([$by | to_entries[] | select(.key != "journal" and .key != "data") | .value] | add // 0),
       asked: .app.write_bytes, s: (.sim_time_ns / 1e9), ops}' "$WORK/run"
}

for WORKLOAD in "$@"; do
  KERNEL=$(kernel "$WORKLOAD") || die "the kernel's side of $WORKLOAD failed"
  MODEL=$(model "$WORKLOAD") || die "the model's side of $WORKLOAD failed"
  echo "$WORKLOAD"
  jq -rn --argjson k "$KERNEL" --argjson m "$MODEL" '
    def per_byte: .["per byte"] = (.journal + .metadata + .data) / .asked;
    ($k | per_byte) as $k | ($m | per_byte) as $m
    | ("journal", "metadata", "data", "per byte", "flushes", "ops", "s") as $kind
    | [$kind, $k[$kind], $m[$kind], (if $k[$kind] > 0 then $m[$kind] / $k[$kind] else null end)] | @tsv' |
    awk -F'\t' 'BEGIN { printf "  %-10s %14s %14s %8s\n", "", "kernel", "model", "ratio" }
      { printf "  %-10s %14.10g %14.10g %8.3f\n", $1, $2, $3, $4 }'
done
