#!/usr/bin/env bash
#
# record-rocksdb.sh - record the file calls of RocksDB's db_bench.
#
# What it does:
#   1. mounts a file system in memory at PLACE, which must not be in use, so that
#      neither names nor waits of this machine's disk get into the recording;
#   2. runs db_bench (unmodified, from the distribution's package) in it under
#      `flashloom record`: an empty store is filled, then its rows are overwritten,
#      then read while one thread overwrites them. Each batch of rows is synced to
#      the write-ahead log before it is answered. RocksDB tells the kernel how long
#      each file will live (F_SET_RW_HINT): logs short, tables of the lower levels
#      longer ones; that is its own doing and in the recording;
#   3. compresses the recording with zstd -19, and checks that nothing was
#      missed and that no name of this machine is in it.
#
# Needs: root; Linux with tmpfs and MEMORY to spare; db_bench (Debian:
# rocksdb-tools), zstd, flashloom.
#
# Usage: record-rocksdb.sh [OUTPUT.flt]          (parameters: environment)
#
# Every run differs (scheduling, compactions): a faster machine overwrites more rows
# while it reads, and its store is larger.

set -euo pipefail
export LC_ALL=C

# ---------------------------------------------------------------- parameters
OUT=$(realpath -m "${1:-rocksdb.flt}")
FLASHLOOM=${FLASHLOOM:-flashloom}     # the program that records
DB_BENCH=${DB_BENCH:-db_bench}
PLACE=${PLACE:-/srv/db}               # where the store is
MEMORY=${MEMORY:-6G}                  # at most for the file system in memory
KEYS=${KEYS:-520000}                  # different rows of the store
VALUE=${VALUE:-1000}                  # bytes of a row
BATCH=${BATCH:-32}                    # rows that are written and synced together
THREADS=${THREADS:-4}
WRITES=${WRITES:-130000}              # rows that each thread writes, filling and overwriting
READS=${READS:-8000}                  # rows that each thread reads at last
RATE=${RATE:-$((32 << 20))}           # bytes a second that all writers offer
READ_RATE=${READ_RATE:-4000}          # rows a second that all readers ask for
# Tables are a sixth of what the drive erases at once, as tables of 64 MiB are small
# beside what drives of terabytes erase at once.
MEMTABLE=${MEMTABLE:-$((4 << 20))}    # bytes of a table in memory
TABLE=${TABLE:-$((2 << 20))}          # bytes of a table in a file
LEVEL_1=${LEVEL_1:-$((16 << 20))}     # bytes of the first level; each next is 8 times larger
SEED=${SEED:-1}                       # of the rows that are written
CACHE=${CACHE:-$((32 << 20))}         # bytes of rows that the store keeps in memory

# ------------------------------------------------------- checks and clean-up
# shellcheck source=record.sh
. "$(dirname "$0")/record.sh"
for p in "$FLASHLOOM" "$DB_BENCH" zstd mount; do
  command -v "$p" >/dev/null || die "$p is missing"
done
occupy
cd "$PLACE"

# ------------------------------------------------------------- the recording
say "db_bench in $PLACE"
record "$DB_BENCH" --db="$PLACE" --benchmarks=fillrandom,overwrite,readwhilewriting \
  --num="$KEYS" --writes="$WRITES" --reads="$READS" --threads="$THREADS" \
  --value_size="$VALUE" --batch_size="$BATCH" --sync=1 --compression_type=none \
  --benchmark_write_rate_limit="$RATE" --benchmark_read_rate_limit="$READ_RATE" \
  --write_buffer_size="$MEMTABLE" --target_file_size_base="$TABLE" \
  --max_bytes_for_level_base="$LEVEL_1" --max_bytes_for_level_multiplier=8 \
  --level_compaction_dynamic_level_bytes=true --bloom_bits=10 \
  --cache_size="$CACHE" --use_direct_reads=1 \
  --compaction_readahead_size=$((2 << 20)) --seed="$SEED"
cd /
told '^(fillrandom|overwrite|readwhilewriting) |^flashloom: '
say "store: $(du -sm "$PLACE" | cut -f 1) MiB"
publish "$OUT"
