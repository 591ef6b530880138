#!/usr/bin/env bash
#
# record-postgres.sh - record the block requests of PostgreSQL on ext4.
#
# What it does:
#   1. makes a sparse file, a loop device with direct I/O and 4 KiB sectors over
#      it, an ext4 with mkfs's default options, and mounts it (no discard);
#   2. makes a PostgreSQL cluster on it and fills it with `pgbench -i`;
#   3. stops the server and unmounts, so that the page cache is cold;
#   4. switches on the kernel's tracepoint block:block_rq_issue for that device;
#   5. mounts, starts the server, and runs for DURATION seconds
#        - `pgbench` (TPC-B-like) from CLIENTS connections: write-ahead log,
#          random heap and index updates, autovacuum, checkpoints;
#        - one batch job that, over and over, loads a staging table with COPY,
#          makes a sorted and indexed report table from it (the sorts spill to
#          temporary files), drops the report of KEEP_REPORTS rounds ago and
#          truncates the staging table;
#   6. stops the server (shutdown checkpoint), unmounts, and writes
#      OUT (zstd-compressed CSV): time_ns,flags,sector,sectors,process
#        time_ns   nanoseconds from the first request (microsecond resolution)
#        flags     the kernel's rwbs string. The operation: R read, W write,
#                  D discard, FF flush. Before it: F flush first. After it:
#                  F force unit access, A read-ahead, S sync, M metadata
#        sector    first 512-byte sector (0 for a flush)
#        sectors   number of 512-byte sectors (0 for a flush)
#        process   who issued it: PostgreSQL's processes by their role, the
#                  others by their name (jbd2/loop0-8 is jbd2, kworker/... is
#                  kworker)
#
# The page cache available to the server is limited with a memory cgroup
# (version 1 or 2), so that reads reach the device.
#
# Needs: root; Linux with tracefs, loop devices and memory cgroups; PostgreSQL's
# server programs and pgbench, an unprivileged account to run them; util-linux,
# e2fsprogs, procps, awk (mawk or gawk), zstd; SIZE of disk space at most.
#
# Usage: record-postgres.sh [OUTPUT.csv.zst]     (parameters: environment)
#
# Every run differs in detail (scheduling, the machine's disk); the character of
# the trace does not.

set -euo pipefail
export LC_ALL=C

# ---------------------------------------------------------------- parameters
OUT=$(realpath -m "${1:-postgres-ext4.csv.zst}")
SIZE=${SIZE:-4G}                      # size of the device
SCALE=${SCALE:-100}                   # pgbench scale; 100 is about 1.5 GB
CLIENTS=${CLIENTS:-12}                # pgbench connections
RATE=${RATE:-500}                     # transactions per second; 0: as fast as possible
DURATION=${DURATION:-165}             # seconds of pgbench
MEMORY=${MEMORY:-640M}                # server memory, page cache included
SHARED_BUFFERS=${SHARED_BUFFERS:-128MB}
MAX_WAL_SIZE=${MAX_WAL_SIZE:-512MB}
CHECKPOINT_TIMEOUT=${CHECKPOINT_TIMEOUT:-30s}
BATCH_ROWS=${BATCH_ROWS:-800000}      # rows per COPY, about 100 bytes each
BATCH_PAUSE=${BATCH_PAUSE:-8}         # seconds between two rounds
KEEP_REPORTS=${KEEP_REPORTS:-3}       # report tables alive at a time
BUFFER_KB=${BUFFER_KB:-32768}         # trace buffer per CPU
RUN_AS=${RUN_AS:-postgres}            # account of the server
KEEP_LOGS=${KEEP_LOGS:-}               # folder for the raw trace and the logs, if wanted
PGBIN=${PGBIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)}

# ------------------------------------------------------- checks and clean-up
die() { echo "record-postgres: $*" >&2; exit 1; }
say() { echo "[$(date +%T)] $*" >&2; }

[ "$(id -u)" = 0 ] || die "must run as root"
id "$RUN_AS" >/dev/null 2>&1 || die "no account $RUN_AS"
[ -n "$PGBIN" ] || PGBIN=$(dirname "$(command -v initdb || true)")
for p in initdb pg_ctl postgres psql pgbench; do
  [ -x "$PGBIN/$p" ] || die "no $p in '$PGBIN' (set PGBIN)"
done
for p in losetup mkfs.ext4 setpriv ps awk zstd; do
  command -v "$p" >/dev/null || die "$p is missing"
done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/record-postgres.XXXXXX")
chmod 755 "$WORK"
MNT=$WORK/mnt; SOCK=$WORK/socket; PGDATA=$MNT/data
mkdir "$MNT" "$SOCK"; chown "$RUN_AS:" "$SOCK"
LOOP='' CGROUP='' INSTANCE='' OUR_TRACEFS='' SERVER_UP=''
JOBS=()                               # background processes to end

as_user() { setpriv --reuid="$RUN_AS" --regid="$RUN_AS" --init-groups -- "$@"; }

stop_jobs() {
  local pid
  for pid in ${JOBS[@]+"${JOBS[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${JOBS[@]+"${JOBS[@]}"}; do wait "$pid" 2>/dev/null || true; done
  JOBS=()
}

cleanup() {
  set +e
  rm -f "$WORK/recording"
  stop_jobs
  [ -n "$SERVER_UP" ] && as_user "$PGBIN/pg_ctl" -D "$PGDATA" -m immediate -w stop >/dev/null
  [ -n "$INSTANCE" ] && { echo 0 >"$INSTANCE/tracing_on"; rmdir "$INSTANCE"; }
  [ -n "$OUR_TRACEFS" ] && umount /sys/kernel/tracing
  mountpoint -q "$MNT" && umount "$MNT"
  [ -n "$LOOP" ] && losetup -d "$LOOP"
  # The last process may take a moment to leave the cgroup.
  [ -n "$CGROUP" ] && for _ in 1 2 3 4 5; do rmdir "$CGROUP" 2>/dev/null && break; sleep 1; done
  rm -rf "$WORK"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# ---------------------------------------------------------------- the device
truncate -s "$SIZE" "$WORK/disk.img"
LOOP=$(losetup --find --show --direct-io=on -b 4096 "$WORK/disk.img")
NAME=$(basename "$LOOP")
[ "$(cat "/sys/block/$NAME/loop/dio")" = 1 ] || die "direct I/O was refused for $LOOP"
# The kernel's internal number of the device: major << 20 | minor.
IFS=: read -r MAJOR MINOR <"/sys/block/$NAME/dev"
DEV=$(( MAJOR << 20 | MINOR ))
# lazy_itable_init=0: have the inode tables written now, not by a kernel thread
# in the middle of the recording. The layout is the default one.
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$LOOP"
mount "$LOOP" "$MNT"
install -d -o "$RUN_AS" -m 700 "$PGDATA"

# ------------------------------------------------------------ memory limit
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then            # version 2
  echo +memory >/sys/fs/cgroup/cgroup.subtree_control
  CGROUP=/sys/fs/cgroup/record-postgres.$$
  mkdir "$CGROUP"; echo "$MEMORY" >"$CGROUP/memory.max"
elif [ -d /sys/fs/cgroup/memory ]; then                       # version 1
  CGROUP=/sys/fs/cgroup/memory/record-postgres.$$
  mkdir "$CGROUP"; echo "$MEMORY" >"$CGROUP/memory.limit_in_bytes"
else
  die "no memory cgroup: reads would not reach the device"
fi

# ---------------------------------------------------------------- the server
say "initdb and pgbench -i -s $SCALE on $LOOP"
as_user "$PGBIN/initdb" -D "$PGDATA" -A trust --no-instructions >/dev/null
cat >>"$PGDATA/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$SOCK'
shared_buffers = $SHARED_BUFFERS
max_wal_size = $MAX_WAL_SIZE
checkpoint_timeout = $CHECKPOINT_TIMEOUT
full_page_writes = on
synchronous_commit = on
work_mem = 4MB
maintenance_work_mem = 16MB
autovacuum_naptime = 15s
autovacuum_vacuum_scale_factor = 0.02
autovacuum_vacuum_cost_limit = 1000
log_line_prefix = '%m [%p] %b: '
log_checkpoints = on
log_connections = on
log_autovacuum_min_duration = 0
log_min_messages = debug1
CONF

start_server() {                      # inside the cgroup
  ( echo "$BASHPID" >"$CGROUP/cgroup.procs"
    exec setpriv --reuid="$RUN_AS" --regid="$RUN_AS" --init-groups -- \
      "$PGBIN/pg_ctl" -D "$PGDATA" -l "$SOCK/server.log" -w -t 300 start ) >/dev/null
  SERVER_UP=yes
}
stop_server() {
  as_user "$PGBIN/pg_ctl" -D "$PGDATA" -m fast -w -t 600 stop >/dev/null
  SERVER_UP=''
}
sql() { as_user "$PGBIN/psql" -h "$SOCK" -q -X -v ON_ERROR_STOP=1 "$@"; }

start_server
sql -d postgres -c 'CREATE DATABASE bench'
as_user "$PGBIN/pgbench" -h "$SOCK" -i -q -s "$SCALE" bench >/dev/null 2>&1
# The batch job has an account of its own: the process titles show it.
sql -d bench <<'SQL'
CREATE ROLE batch LOGIN;
CREATE SCHEMA batch AUTHORIZATION batch;
CREATE TABLE batch.staging (id bigint, customer int, amount int, note text);
ALTER TABLE batch.staging OWNER TO batch;
SQL
say "database: $(sql -At -d bench -c "SELECT pg_size_pretty(pg_database_size('bench'))")"
stop_server
umount "$MNT"                         # writes back everything, empties the cache

# ------------------------------------------------------------------ the trace
T=/sys/kernel/tracing
if [ ! -d "$T/instances" ]; then mount -t tracefs tracefs "$T"; OUR_TRACEFS=yes; fi
INSTANCE=$T/instances/record-postgres.$$
mkdir "$INSTANCE"
echo "$BUFFER_KB" >"$INSTANCE/buffer_size_kb"
echo mono >"$INSTANCE/trace_clock"    # one clock for all CPUs
echo "dev == $DEV" >"$INSTANCE/events/block/block_rq_issue/filter"
echo 1 >"$INSTANCE/events/block/block_rq_issue/enable"
cat "$INSTANCE/trace_pipe" >"$WORK/raw" &
JOBS+=("$!")

# Which process has which role: the process titles, looked at often, and (below)
# the server's log, which names each short-lived process that did something.
# The loop ends when the file "recording" is gone.
touch "$WORK/recording"
( while [ -e "$WORK/recording" ]; do ps -u "$RUN_AS" -o pid=,args= || true; sleep 0.1; done |
    awk '/ postgres: / && !seen[$0]++ { print; fflush() }' >"$WORK/titles" ) &
TITLES=$!

# The kernel's own counters, to compare with at the end: sectors read and written.
counters() { awk '{ print $3, $7 }' "/sys/block/$NAME/stat"; }
read -r R0 W0 < <(counters)
say "recording $DURATION s"
mount "$LOOP" "$MNT"
LOG_FROM=$(wc -l <"$SOCK/server.log")
start_server

# The batch job: COPY, sort, CREATE TABLE AS, CREATE INDEX, DROP, TRUNCATE.
batch() {
  local round=0 end=$(( SECONDS + DURATION - 5 ))
  while [ "$SECONDS" -lt "$end" ]; do
    awk -v n="$BATCH_ROWS" -v r="$round" 'BEGIN {
      srand(r + 1)
      for (i = 0; i < n; i++)
        printf "%d\t%d\t%d\t%08x%08x%08x%08x%08x%08x%08x\n", r * n + i, rand() * 200000,
          rand() * 10000, rand() * 2^31, rand() * 2^31, rand() * 2^31, rand() * 2^31,
          rand() * 2^31, rand() * 2^31, rand() * 2^31
    }' | sql -U batch -d bench -c 'COPY batch.staging FROM STDIN'
    sql -U batch -d bench <<SQL
SET client_min_messages = warning;
DROP TABLE IF EXISTS batch.report_$(( round % KEEP_REPORTS ));
CREATE TABLE batch.report_$(( round % KEEP_REPORTS )) AS
  SELECT customer, amount, rank() OVER (PARTITION BY customer ORDER BY amount DESC), note
  FROM batch.staging ORDER BY amount, customer;
CREATE INDEX ON batch.report_$(( round % KEEP_REPORTS )) (customer);
TRUNCATE batch.staging;
SQL
    round=$(( round + 1 ))
    sleep "$BATCH_PAUSE"
  done
  say "batch job: $round rounds"
}
batch & BATCH=$!; JOBS+=("$BATCH")
rate=(); [ "$RATE" = 0 ] || rate=(--rate "$RATE")
as_user "$PGBIN/pgbench" -h "$SOCK" -n -c "$CLIENTS" -j 2 -T "$DURATION" ${rate[@]+"${rate[@]}"} \
  bench >"$WORK/pgbench.out" 2>&1 || { cat "$WORK/pgbench.out" >&2; die "pgbench failed"; }
wait "$BATCH" || die "the batch job failed"
stop_server
umount "$MNT"
sleep 1
echo 0 >"$INSTANCE/tracing_on"
read -r R1 W1 < <(counters)
# trace_pipe never ends by itself: wait until the reader has taken everything.
while [ "$(cat "$INSTANCE"/per_cpu/cpu*/stats | awk '/^entries:/ { s += $2 } END { print s }')" != 0 ]; do sleep 0.5; done
LOST=$(cat "$INSTANCE"/per_cpu/cpu*/stats | awk '/^(overrun|dropped events):/ { s += $NF } END { print s }')
sleep 1
stop_jobs
rm "$WORK/recording"; wait "$TITLES"
[ "$LOST" = 0 ] || die "$LOST events were lost: raise BUFFER_KB"
! grep -q 'LOST .* EVENTS' "$WORK/raw" || die "events were lost: raise BUFFER_KB"
grep -E '^(tps|number of transactions actually|latency average)' "$WORK/pgbench.out" >&2
grep -c 'checkpoint complete' <(tail -n "+$(( LOG_FROM + 1 ))" "$SOCK/server.log") |
  sed 's/$/ checkpoints/' >&2

# ---------------------------------------------------------------- conversion
# A line of the trace:
#   postgres-1234 [001] ..... 12.345678: block_rq_issue: 7,0 WS 8192 () 800 + 16 be,0,4 [postgres]
tail -n "+$(( LOG_FROM + 1 ))" "$SOCK/server.log" >"$WORK/log"
awk '
  function role(s) {                  # a title or a backend type -> a role
    if (s ~ /checkpointer/) return "checkpointer"
    if (s ~ /background writer/) return "bgwriter"
    if (s ~ /walwriter/) return "walwriter"
    if (s ~ /autovacuum/) return "autovacuum"
    if (s ~ /parallel worker/) return "parallel"
    if (s ~ /logical replication/) return "logical"
    if (s ~ /startup/) return "startup"
    if (s ~ /^postgres: batch /) return "batch"
    if (s ~ /^postgres: [^ ]+ [^ ]+ \[local\]/ || s ~ /^client backend/) return "backend"
    return ""
  }
  FILENAME ~ /titles$/ {              # " 1234 postgres: checkpointer "
    pid = $1; sub(/^ *[0-9]+ /, ""); r = role($0)
    if (r != "" && pid in who && who[pid] != r) print "process number " pid " used twice: " who[pid] ", " r >"/dev/stderr"
    if (r != "") who[pid] = r
    next
  }
  FILENAME ~ /log$/ {                 # "2024-01-01 00:00:00.000 UTC [1234] checkpointer: ..."
    if (match($0, /\[[0-9]+\] [a-z ]+:/)) {
      s = substr($0, RSTART + 1, RLENGTH - 2); pid = s + 0; sub(/^[0-9]+\] /, "", s)
      if (s == "postmaster") postmaster[pid] = 1
      else if (s == "client backend" && $0 ~ /user=batch /) who[pid] = "batch"
      else if (!(pid in who) && (r = role(s)) != "") who[pid] = r
    }
    next
  }
  match($0, /: block_rq_issue: /) {
    head = substr($0, 1, RSTART - 1); tail = substr($0, RSTART + RLENGTH)
    n = split(head, h, " "); split(h[n], t, ".")
    match(head, /-[0-9]+ +(\([^)]*\) +)?\[[0-9]+\]/); pid = substr(head, RSTART + 1) + 0
    match(tail, /\[.*\]$/); comm = substr(tail, RSTART + 1, RLENGTH - 2)
    split(tail, f, " ")               # dev rwbs bytes () sector + sectors prio [comm]
    if (comm ~ /^jbd2\//) comm = "jbd2"
    else if (comm ~ /^kworker\//) comm = "kworker"
    else if (comm == "postgres")
      comm = "postgres:" (pid in who ? who[pid] : pid in postmaster ? "postmaster" : "other")
    gsub(/[ ,]/, "_", comm)
    # Seconds and microseconds apart: a double would be too short for nanoseconds.
    printf "%s%s000,%s,%s,%s,%s\n", t[1], t[2], f[2], f[5], f[7], comm
  }
' "$WORK/titles" "$WORK/log" "$WORK/raw" |
  sort -s -t, -k1,1n |                # the buffers of the CPUs are merged roughly
  awk -F, -v OFS=, '
    BEGIN { print "time_ns,flags,sector,sectors,process" }
    NR == 1 { s0 = substr($1, 1, length($1) - 9); n0 = substr($1, length($1) - 8) }
    { s = substr($1, 1, length($1) - 9) - s0; n = substr($1, length($1) - 8) - n0
      $1 = sprintf("%.0f", s * 1000000000 + n); print }' >"$WORK/trace.csv"
[ "$(wc -l <"$WORK/trace.csv")" -gt 1 ] || die "the trace is empty"
awk -F, '$2 ~ /R/ { r += $4 } $2 ~ /W/ { w += $4 } END { printf "%.0f %.0f\n", r, w }' "$WORK/trace.csv" |
  { read -r r w; [ "$r $w" = "$(( R1 - R0 )) $(( W1 - W0 ))" ] ||
      die "sectors read and written: $r $w in the trace, $(( R1 - R0 )) $(( W1 - W0 )) by the kernel's count"; }
mkdir -p "$(dirname "$OUT")"
zstd -q -19 -f "$WORK/trace.csv" -o "$OUT"
say "$(( $(wc -l <"$WORK/trace.csv") - 1 )) requests, $(stat -c %s "$OUT") bytes: $OUT"
if [ -n "$KEEP_LOGS" ]; then
  mkdir -p "$KEEP_LOGS"
  cp "$WORK/pgbench.out" "$WORK/titles" "$WORK/log" "$WORK/raw" "$KEEP_LOGS/"
fi
