#!/usr/bin/env bash
#
# record-stores.sh - record the file calls of several stores, small.
#
# What it does, for each of the stores that are named (else for all):
#   rocksdb-fifo  RocksDB's db_bench as in the dissertation on Shimmer, a 167th of its
#                 operations: rows of 20 and 400 bytes, FIFO compaction; filled in any
#                 order, written over, read while one thread writes over them, read;
#   wiredtiger    WiredTiger's wt with an LSM tree: loaded, written over, read;
#   postgresql    PostgreSQL under pgbench, with a report between that sorts in files;
#   sqlite        SQLite's shell with a write-ahead log: loaded, then small transactions.
# Each runs unmodified, as the distribution has it, in a file system in memory at PLACE
# under `flashloom record`. The recording is compressed with zstd -19, and no name of this
# machine may be in it.
#
# Needs: root; Linux with tmpfs; db_bench (Debian: rocksdb-tools), wt (wiredtiger),
# postgresql, pgbench, sqlite3, python3, zstd, flashloom.
#
# Usage: record-stores.sh [STORE ...]              (parameters: environment)
#
# Every run differs: scheduling, merges, checkpoints. SEED chooses other rows.

set -euo pipefail
export LC_ALL=C

OUT=$(realpath -m "${OUT:-.}")        # where the recordings go
FLASHLOOM=${FLASHLOOM:-flashloom}     # the program that records
PLACE=${PLACE:-/srv/db}               # where the store is
MEMORY=${MEMORY:-3G}                  # at most for the file system in memory
SEED=${SEED:-1}
POSTGRES=${POSTGRES:-/usr/lib/postgresql/15/bin}

# shellcheck source=record.sh
. "$(dirname "$0")/record.sh"
chmod 777 "$WORK"

# Rows for wt and sqlite3: keys in any order, then keys to write over, then keys to read.
rows() {
  python3 - "$SEED" "$WORK" <<'E'
import random, sys
chance, n, out = random.Random(int(sys.argv[1])), 60000, sys.argv[2]
def row(key):
    return f"{key:016d}\n{''.join(chance.choices('abcdefghij', k=8)) * 50}\n"
keys = list(range(n))
chance.shuffle(keys)
open(out + "/load", "w").write("".join(map(row, keys)))
open(out + "/update", "w").write("".join(row(chance.randrange(n)) for _ in keys))
open(out + "/read", "w").write("".join(f"{chance.randrange(n):016d}\n" for _ in range(4000)))
def put(first, last, size):
    rows = (f"({chance.randrange(20000)},'{'x' * size}')" for _ in range(first, last))
    return f"insert or replace into t values {','.join(rows)};\n"
with open(out + "/sql", "w") as sql:
    sql.write("pragma journal_mode=wal; pragma synchronous=full; pragma cache_size=-2000;\n")
    sql.write("create table t(k integer primary key, v text); create index i on t(v, k);\n")
    sql.write("".join(put(at, at + 500, 200) for at in range(0, 20000, 500)))
    sql.write("".join(put(at, at + 4, 200) for at in range(0, 6000, 4)))
E
}

# Scripts, so that the command in a recording names nothing of this machine.
script() { cat >"$PLACE/../run.sh"; }

rocksdb_fifo() {
  record /usr/bin/db_bench --db="$PLACE" \
    --benchmarks=fillrandom,overwrite,readwhilewriting,readrandom \
    --num=60000 --reads=6000 --threads=1 --key_size=20 --value_size=400 \
    --compression_type=none --compaction_style=2 --fifo_compaction_max_table_files_size_mb=12 \
    --write_buffer_size=$((1 << 20)) --target_file_size_base=$((1 << 20)) \
    --cache_size=$((2 << 20)) --seed="$SEED"
}

wiredtiger() {
  rows
  local how='create,cache_size=16MB,log=(enabled=true,file_max=4MB),transaction_sync=(enabled=true,method=none),checkpoint=(wait=2)'
  local tree='type=lsm,key_format=S,value_format=S,lsm=(chunk_size=2MB,merge_max=8,bloom=true)'
  script <<E
set -e
wt -h $PLACE -C '$how' create -c '$tree' table:bench
wt -h $PLACE -C '$how' loadtext -f $WORK/load table:bench
wt -h $PLACE -C '$how' loadtext -f $WORK/update table:bench
xargs -n 2000 wt -h $PLACE -C '$how' read table:bench <$WORK/read >/dev/null
E
  record sh "$PLACE/../run.sh"
}

postgresql() {
  chown postgres "$PLACE"
  script <<E
set -e
PATH=$POSTGRES:\$PATH
initdb -D $PLACE/data --no-sync -A trust >/dev/null
cat >>$PLACE/data/postgresql.conf <<C
listen_addresses = ''
unix_socket_directories = '$PLACE'
shared_buffers = 16MB
max_wal_size = 48MB
min_wal_size = 32MB
checkpoint_timeout = 30s
autovacuum_naptime = 2s
C
pg_ctl -D $PLACE/data -w -l $PLACE/log start >/dev/null
pgbench -h $PLACE -i -s 6 -q postgres >/dev/null 2>&1
pgbench -h $PLACE --random-seed=$SEED -c 4 -j 1 -t 2500 postgres >/dev/null 2>&1
psql -h $PLACE -q postgres -c "set work_mem='1MB'; create table report as select aid, bid, abalance from pgbench_accounts order by filler, abalance desc; create index on report(abalance); drop table report;" >/dev/null
pgbench -h $PLACE --random-seed=$((SEED + 1)) -c 4 -j 1 -t 1000 postgres >/dev/null 2>&1
pg_ctl -D $PLACE/data -m fast -w stop >/dev/null
E
  AS=postgres record sh "$PLACE/../run.sh"
}

sqlite() {
  rows
  script <<E
sqlite3 $PLACE/bench.sqlite <$WORK/sql >/dev/null
E
  record sh "$PLACE/../run.sh"
}

for store in "${@:-rocksdb-fifo wiredtiger postgresql sqlite}"; do
  # shellcheck disable=SC2086
  for one in $store; do
    say "$one"
    occupy
    (cd "$PLACE" && "${one//-/_}")
    rm -f "$PLACE/../run.sh"
    told '^flashloom: '
    leave
    publish "$OUT/$one.flt"
  done
done
