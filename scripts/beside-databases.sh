#!/usr/bin/env bash
# Runs third-party databases on a mounted file system of Flashloom and kills the mount under them:
# PostgreSQL under pgbench, RocksDB under db_bench, SQLite. Work that they reported as done must be
# present when the drive is mounted again.
#
#   scripts/beside-databases.sh [ROUNDS]
#
# ROUNDS (3) is the number of times that the mount is killed under pgbench. The exit status is 1 if
# an acknowledged transaction is lost, or a checksum or the format is wrong. SUITES_KIND selects
# another file system than bytefs: btrfs, btrfs-nocow, ext4, f2fs, hyfim, nova, persimmon, pmfs;
# SUITES_PRESET another drive than its default, such as `zns` for f2fs; FLASHLOOM another flashloom
# than target/release's. Needs root, FUSE, e2fsprogs, PostgreSQL with pgbench, db_bench
# (rocksdb-tools) and sqlite3; f2fs-tools for f2fs, btrfs-progs for btrfs.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
kind=${SUITES_KIND:-bytefs}
rounds=${1:-3}

# shellcheck source=suites/common.sh
. "$repository/scripts/suites/common.sh"

built
root "the mount, and a server that is another user,"
need pgbench db_bench sqlite3 e2fsck
[ "$kind" != f2fs ] || need fsck.f2fs
case $kind in btrfs* | hyfim) need btrfs ;; esac
server=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
[ -n "$server" ] || stop "no server of PostgreSQL is installed"

alone "$@"

work=$(mktemp -d)
chmod 755 "$work"
mkdir "$work/mnt" "$work/log"
chown postgres "$work/log"
mounted=

clean() {
  pkill -9 -f "^$server/postgres -D $work" 2>/dev/null || true
  umount -l "$work/mnt" 2>/dev/null || true
  [ -z "$mounted" ] || kill -9 "$mounted" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

attach() { in_front "$kind" "$work/drive.flash" "$work/mnt"; }

# Kills the process that serves the mount.
cut_off() {
  disown "$mounted"
  kill -9 "$mounted"
  mounted=
}

again() {
  umount -l "$work/mnt"
  attach
}

as_user() {
  su postgres -s /bin/sh -c "cd $work/log && $*"
}

client="-h $work/log -p 5544"

start() {
  as_user "$server/pg_ctl -D $work/mnt/cluster -o '-k $work/log -p 5544' \
    -l $work/log/server.log -w start" >/dev/null
}

bench() {
  as_user "pgbench $client -c 4 -T 60 -l tested" >/dev/null 2>&1 &
  local clients=$!
  sleep "$1"
  cut_off
  wait "$clients" || true
  as_user "$server/pg_ctl -D $work/mnt/cluster -m immediate stop" >/dev/null 2>&1 || true
  pkill -9 -f "^$server/postgres -D $work" 2>/dev/null || true
}

# pgbench truncates its history table when it starts.
postgres() {
  local round answered found
  mkdir "$work/mnt/cluster"
  chown postgres "$work/mnt/cluster"
  as_user "$server/initdb -A trust -D $work/mnt/cluster" >/dev/null
  start
  as_user "createdb $client tested && pgbench $client -i -s 2 tested" >/dev/null 2>&1
  for round in $(seq "$rounds"); do
    rm -f "$work"/log/pgbench_log*
    bench $((8 + round * 3))
    again
    # Left behind by the killed server, whose process number may not be free yet.
    rm -f "$work/mnt/cluster/postmaster.pid" "$work"/log/.s.PGSQL.*
    start
    answered=$(cat "$work"/log/pgbench_log* | wc -l)
    found=$(as_user "psql $client -tAc 'select count(*) from pgbench_history' tested")
    echo "pgbench, killed: $answered transactions answered, $found found"
    [ "$answered" -gt 0 ] || stop "pgbench was told of nothing"
    [ "$found" -ge "$answered" ] || stop "transactions are gone"
  done
  as_user "$server/pg_ctl -D $work/mnt/cluster -m fast stop" >/dev/null
}

rocksdb() {
  local database=$work/mnt/database said
  db_bench --db="$database" --benchmarks=fillrandom,overwrite,readrandom --num=50000 \
    >/dev/null 2>&1 || stop "db_bench failed"
  rm -r "$database"
  # The fill takes longer than the time until the kill.
  db_bench --db="$database" --benchmarks=fillrandom --sync=1 --num=10000000 \
    >/dev/null 2>&1 &
  local filler=$!
  sleep 10
  cut_off
  wait "$filler" 2>/dev/null || true
  again
  said=$(db_bench --db="$database" --use_existing_db=1 --num=10000000 \
    --benchmarks=readseq,verifychecksum --verify_checksum=true 2>&1) ||
    stop "RocksDB does not open what is left: $said"
  echo "RocksDB, killed: $(grep -o '[0-9]* operations' <<<"$said" | head -1) read back"
}

sqlite() {
  local said
  said=$(sqlite3 "$work/mnt/x.db" "pragma journal_mode=wal; create table t(a);
    insert into t select randomblob(1000) from generate_series(1, 5000);
    update t set a = randomblob(500) where rowid % 3 = 0; pragma integrity_check;" | tail -1)
  [ "$said" = ok ] || stop "SQLite says $said"
  echo "SQLite: $said"
}

new_drive drive 2GiB
attach
postgres
rocksdb
sqlite
umount "$work/mnt"
wait "$mounted" || true
mounted=
sound drive
sed "s|$work/||" "$work/drive.fsck"
[ ! -e "$work/drive.judged" ] || echo "a checker of others: nothing found"
