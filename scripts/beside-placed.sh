#!/usr/bin/env bash
# Runs programs with their files in zones, and kills them with the layers below them: db_bench,
# WiredTiger, SQLite, nginx's cache, Redis, RocksDBs of PyPI and of Maven Central. The program, the daemon of the zones,
# or the drive is killed with signal 9 at a random moment. Forced data must be present afterwards,
# and the program's own check must find no error.
#
#   scripts/beside-placed.sh [ROUNDS] [PART...]
#
# ROUNDS (3) is the number of kills of each part with each victim. PARTS are rocksdb (fillrandom,
# overwrite, readwhilewriting and readrandom, and counted forced writes), allocators (forced writes
# of db_bench with each of jemalloc, tcmalloc, mimalloc and the C library's), redis (its append-only
# file, forced before each answer, with the same allocators), rocksdict (PyPI's package, with a
# RocksDB of its own), rocksdbjni (Maven Central's, in a Java program), wiredtiger, sqlite, nginx, and suites: pjdfstest and fsx under the library,
# on files that match no rule, if PJDFSTEST and FSX name them. By default all parts run whose
# programs are installed. The zones are a mounted zonefs of ours; with EMULATED set they are a plain
# folder, which cannot be killed. FLASHLOOM selects another flashloom than target/release's, SEED
# another seed of moments. Needs root, FUSE and a C compiler.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
rounds=${1:-3}
shift || true
parts=${*:-rocksdb allocators redis rocksdict rocksdbjni wiredtiger sqlite nginx suites}
RANDOM=${SEED:-1}

# shellcheck source=suites/common.sh
. "$repository/scripts/suites/common.sh"

built
root "mounts"
alone "$rounds" $parts

work=$(mktemp -d)
chmod 755 "$work"
zones=$work/zones
mkdir "$zones"
mounted= shim= over= victims="program daemon drive"
[ -z "${EMULATED:-}" ] || victims="program daemon"

# Process numbers of the daemons that serve the zones of this script.
daemon() { pgrep -f "serve .*$zones" || true; }

# Process number of the program; a daemon started for it has the same parent.
program() { comm -23 <(pgrep -P "$shim" | sort) <(daemon | sort); }

clean() {
  [ -z "$shim" ] || kill -9 "$shim" $(program) 2>/dev/null || true
  local number
  for number in $(daemon); do kill -9 "$number" 2>/dev/null || true; done
  umount -l "$zones" 2>/dev/null || true
  [ -z "$mounted" ] || { disown "$mounted" && kill -9 "$mounted"; } 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

attach() { in_front zonefs "$work/drive" "$zones"; }

# Provides empty zones.
fresh() {
  if [ -n "${EMULATED:-}" ]; then
    rm -rf "$zones"
    emulated_zones "$zones" 96 16
    return
  fi
  if [ -n "$mounted" ]; then
    # Files of a killed process are closed a little later.
    for _ in $(seq 100); do
      umount "$zones" 2>/dev/null && break
      sleep 0.1
    done
    mountpoint -q "$zones" && stop "someone still has a zone open"
    wait "$mounted" || true
  fi
  rm -f "$work/drive"
  "$flashloom" drive create "$work/drive" --preset zns --size "${PLACED_SIZE:-2GiB}" --force >/dev/null
  "$flashloom" mkfs zonefs "$work/drive" >/dev/null
  attach
}

# Waits until no daemon uses the zones.
released() {
  for _ in $(seq 600); do
    [ -n "$(daemon)" ] || return 0
    sleep 0.1
  done
  stop "the daemon does not end"
}

placed() { LD_PRELOAD=$over "$flashloom" shim --rules "$rules" --zones "$zones" -- "$@"; }

# Starts a program with its files placed, in the background.
begin() {
  LD_PRELOAD=$over "$flashloom" shim --rules "$rules" --zones "$zones" -- "$@" >"$work/said" 2>"$work/error" &
  shim=$!
}

# kill_after VICTIM SECONDS [TEXT FILE]: kills a victim after a random part of SECONDS, and ends all
# other processes. The time starts once the program runs and TEXT is in FILE, so that a busy machine
# does not shorten it.
kill_after() {
  local victim=$1 seconds=$2 number
  for _ in $(seq 600); do
    [ -n "$(program)" ] && { [ $# = 2 ] || grep -q "$3" "$4"; } && break
    kill -0 "$shim" 2>/dev/null || stop "the program has ended by itself: $(tail -3 "$work/error")"
    sleep 0.1
  done
  sleep "$(awk -v r=$RANDOM -v s="$seconds" 'BEGIN { printf "%.3f", 0.4 + s * r / 32768 }')"
  case $victim in
    program) kill -9 $(program) 2>/dev/null || stop "there was no program to kill: $(tail -n 3 "$work/said" "$work/error")" ;;
    daemon)
      [ -n "$(daemon)" ] || stop "there was no daemon to kill"
      for number in $(daemon); do kill -9 "$number" 2>/dev/null || true; done
      sleep 1
      kill -9 $(program) 2>/dev/null || true
      ;;
    drive)
      disown "$mounted"
      kill -9 "$mounted"
      sleep 0.5
      kill -9 $(program) 2>/dev/null || true
      umount -l "$zones"
      attach
      ;;
  esac
  wait "$shim" 2>/dev/null || true
  shim=
  released
}

# forced VICTIM: a lower bound of the writes acknowledged by RocksDB. It counts a write, and may
# print the count, before it checks for failure; one write fails if a layer below is killed.
forced() {
  local said
  said=$(tr '\r' '\n' <"$work/error" | grep -o 'finished [0-9]* ops' | tail -1 | grep -o '[0-9]*') ||
    stop "RocksDB has said nothing before it was killed: $(cat "$work/error")"
  [ "$1" = program ] || said=$((said - 1))
  echo "$said"
}

rocksdb() {
  local victim round bench had said count least total=0
  rules=rocksdb
  local base="--db=$work/db --num=200000 --value_size=400 --write_buffer_size=4194304 \
    --target_file_size_base=4194304 --max_bytes_for_level_base=16777216 --compression_type=none"
  for bench in fillrandom overwrite readwhilewriting readrandom; do
    for victim in $victims; do
      fresh
      rm -rf "$work/db"
      placed db_bench $base --num=20000 --benchmarks=fillrandom >/dev/null 2>"$work/error" ||
        stop "db_bench fails: $(cat "$work/error")"
      released
      for round in $(seq "$rounds"); do
        # With the existing store fillrandom would end at once.
        had=1
        [ "$bench" != fillrandom ] || had=0
        begin db_bench $base --use_existing_db=$had --duration=30 --benchmarks="$bench"
        kill_after "$victim" 4
        said=$(placed db_bench $base --use_existing_db=1 --benchmarks=readseq,verifychecksum \
          --verify_checksum=true 2>&1) || stop "RocksDB, $victim killed in $bench: $said"
        grep -qi "corrupt" <<<"$said" && stop "RocksDB, $victim killed in $bench: $said"
        total=$((total + 1))
        released
      done
    done
  done
  echo "RocksDB: killed $total times ($victims; four workloads), every check passed"
  forced_writes "RocksDB"
}

# forced_writes NAME: kills db_bench while it forces each write; acknowledged writes must be
# present.
forced_writes() {
  local victim round least said count
  rules=rocksdb
  for victim in $victims; do
    fresh
    for round in $(seq "$rounds"); do
      rm -rf "$work/db"
      begin db_bench --db="$work/db" --benchmarks=fillseq --sync=1 --num=10000000 --value_size=200
      kill_after "$victim" 5 "finished [0-9]" "$work/error"
      least=$(forced "$victim")
      said=$(placed db_bench --db="$work/db" --use_existing_db=1 --num=10000000 \
        --benchmarks=readseq --verify_checksum=true 2>&1) || stop "$1: $said"
      count=$(grep -o '[0-9]* operations' <<<"$said" | head -1 | grep -o '[0-9]*')
      echo "$1, forced writes, $victim killed: at least $least answered, $count found"
      [ "$count" -ge "$least" ] || stop "records are gone"
      released
    done
  done
}

# over_each WORK NAME: runs WORK with a name for each installed allocator.
over_each() {
  local library
  for library in "" jemalloc.so.2 tcmalloc_minimal.so.4 mimalloc.so.2; do
    over=
    if [ -n "$library" ]; then
      over=/usr/lib/$(uname -m)-linux-gnu/lib$library
      [ -e "$over" ] || { echo "$library: not installed"; continue; }
    fi
    "$1" "$2 over ${library:-its own allocator}"
  done
  over=
}

allocators() { over_each forced_writes RocksDB; }

# Redis forces each append before it answers; it is killed and started again.
redis() {
  command -v redis-server redis-cli >/dev/null || { echo "Redis: not installed"; return; }
  cat > "$work/rules.redis" <<'R'
name = "redis"
[[stream]]
name = "commands"
life = "medium"
[[rule]]
path = "*.aof"
stream = "commands"
R
  over_each redis_killed Redis
}

redis_begins() {
  rm -f "$work/redis.sock"
  begin redis-server --port 0 --unixsocket "$work/redis.sock" --dir "$work/redis" --save "" \
    --appendonly yes --appendfsync always --logfile "$work/redis.log"
  for _ in $(seq 600); do
    [ "$(redis-cli -s "$work/redis.sock" ping 2>/dev/null)" = PONG ] && return
    kill -0 "$shim" 2>/dev/null || stop "Redis does not begin: $(tail -3 "$work/redis.log" "$work/error")"
    sleep 0.1
  done
  stop "Redis does not answer"
}

redis_killed() {
  local victim round found answered
  rules=$work/rules.redis
  for victim in $victims; do
    fresh
    rm -rf "$work/redis" && mkdir "$work/redis"
    found=0
    for round in $(seq "$rounds"); do
      redis_begins
      (for n in $(seq 1000000); do echo "set $round.$n 0123456789"; done) 2>/dev/null |
        redis-cli -s "$work/redis.sock" >"$work/answers" 2>/dev/null &
      local client=$!
      kill_after "$victim" 3 "^OK" "$work/answers"
      # The client would try every remaining command on the dead server.
      kill "$client" 2>/dev/null || true
      wait "$client" 2>/dev/null || true
      answered=$((found + $(grep -c "^OK" "$work/answers")))
      redis_begins
      found=$(redis-cli -s "$work/redis.sock" dbsize)
      kill -9 $(program)
      wait "$shim" 2>/dev/null || true
      shim=
      released
      echo "$1, $victim killed: $answered answered, $found found"
      [ "$found" -ge "$answered" ] || stop "keys are gone"
    done
  done
}

# A PyPI package with a RocksDB and an allocator of its own.
rocksdict() {
  local victim round answered found
  python3 -m pip install -q --target "$work/python" rocksdict 2>"$work/error" ||
    { echo "rocksdict: not installed: $(tail -n 1 "$work/error")"; return; }
  cat > "$work/rd.py" <<'P'
import sys
from rocksdict import Options, Rdict, WriteOptions
path, writes = sys.argv[1], sys.argv[2] == "write"
options = Options(raw_mode=True)
options.create_if_missing(True)
options.set_write_buffer_size(1 << 20)
db = Rdict(path, options)
forced = WriteOptions()
forced.sync = True
if writes:
    for n in range(10**9):
        db.put(b"%09d" % n, b"v" * 400, forced)
        print(n + 1, flush=True)
count = 0
for key, value in db.items():
    assert key == b"%09d" % count and value == b"v" * 400, key
    count += 1
print(count)
P
  rules=rocksdb
  export PYTHONPATH=$work/python
  for victim in $victims; do
    fresh
    for round in $(seq "$rounds"); do
      rm -rf "$work/rd"
      begin python3 "$work/rd.py" "$work/rd" write
      kill_after "$victim" 4 "^[0-9]" "$work/said"
      answered=$(grep -x '[0-9][0-9]*' "$work/said" | tail -1)
      found=$(placed python3 "$work/rd.py" "$work/rd" count) || stop "rocksdict does not open it"
      echo "rocksdict, $victim killed: $answered answered, $found found"
      [ "$found" -ge "$answered" ] || stop "records are gone"
      released
    done
  done
  unset PYTHONPATH
}

# The RocksDB of Maven Central in a Java program: forced puts with flushes between them, then every
# record read by key and by iteration, and all checksums verified.
rocksdbjni() {
  local version=${ROCKSDBJNI:-10.10.1.1} jar tool victim round answered found
  for tool in java javac mvn; do
    command -v "$tool" >/dev/null || { echo "rocksdbjni: skipped, $tool is not installed"; return; }
  done
  jar=$work/repository/org/rocksdb/rocksdbjni/$version/rocksdbjni-$version-linux64.jar
  mvn -q -B -Dmaven.repo.local="$work/repository" dependency:get -Dtransitive=false \
    -Dartifact="org.rocksdb:rocksdbjni:$version:jar:linux64" >"$work/error" 2>&1 ||
    { echo "rocksdbjni: skipped, not to be had: $(tail -n 1 "$work/error")"; return; }
  cat > "$work/Jni.java" <<'J'
import java.util.Arrays;
import org.rocksdb.*;
public class Jni {
    static byte[] key(int n) { return String.format("%09d", n).getBytes(); }
    public static void main(String[] args) throws RocksDBException {
        RocksDB.loadLibrary();
        byte[] value = new byte[400];
        Arrays.fill(value, (byte) 'v');
        try (Options options = new Options().setCreateIfMissing(true).setWriteBufferSize(1 << 20);
             WriteOptions forced = new WriteOptions().setSync(true);
             FlushOptions flush = new FlushOptions();
             RocksDB db = RocksDB.open(options, args[0])) {
            for (int n = 0; args[1].equals("write"); n++) {
                db.put(forced, key(n), value);
                if (n % 100 == 99) db.flush(flush);
                System.out.println(n + 1);
            }
            int count = 0;
            try (RocksIterator at = db.newIterator()) {
                for (at.seekToFirst(); at.isValid(); at.next(), count++) {
                    byte[] direct = db.get(key(count));
                    if (!Arrays.equals(at.key(), key(count)) || !Arrays.equals(at.value(), value)
                        || !Arrays.equals(direct, value)) throw new IllegalStateException("" + count);
                }
                at.status();
            }
            db.verifyChecksum();
            System.out.println(count);
        }
    }
}
J
  javac -cp "$jar" -d "$work" "$work/Jni.java"
  rules=rocksdb
  for victim in $victims; do
    fresh
    for round in $(seq "$rounds"); do
      rm -rf "$work/jni"
      begin java -cp "$jar:$work" Jni "$work/jni" write
      kill_after "$victim" 4 "^[0-9]" "$work/said"
      answered=$(grep -x '[0-9][0-9]*' "$work/said" | tail -1)
      found=$(placed java -cp "$jar:$work" Jni "$work/jni" count) || stop "rocksdbjni does not open it"
      echo "rocksdbjni $version, $victim killed: $answered answered, $found found"
      [ "$found" -ge "$answered" ] || stop "records are gone"
      released
    done
  done
}

# Writes numbered records in forced transactions, and prints each number afterwards.
wiredtiger() {
  [ -e /usr/include/wiredtiger.h ] || { echo "WiredTiger: not installed"; return; }
  local victim round
  cat > "$work/wt.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>
#define CHECK(it) do { int e = (it); if (e) { \
    fprintf(stderr, #it ": %s\n", wiredtiger_strerror(e)); exit(1); } } while (0)
int main(int argc, char **argv) {
    WT_CONNECTION *db; WT_SESSION *s; WT_CURSOR *c;
    int writes = !strcmp(argv[2], "write");
    CHECK(wiredtiger_open(argv[1], NULL,
        "create,cache_size=32MB,log=(enabled,file_max=4MB),"
        "transaction_sync=(enabled,method=fsync),checkpoint=(wait=2)", &db));
    CHECK(db->open_session(db, NULL, NULL, &s));
    if (writes) CHECK(s->create(s, "table:t", argv[3]));
    else CHECK(s->verify(s, "table:t", NULL));
    CHECK(s->open_cursor(s, "table:t", NULL, NULL, &c));
    char value[401];
    memset(value, 'v', 400);
    value[400] = 0;
    long count = 0;
    if (writes) {
        for (long n = 0;; n++) {
            CHECK(s->begin_transaction(s, NULL));
            c->set_key(c, (int64_t)n);
            c->set_value(c, value);
            CHECK(c->insert(c));
            CHECK(s->commit_transaction(s, NULL));
            printf("%ld\n", n + 1);
            fflush(stdout);
        }
    }
    while (c->next(c) == 0) {
        int64_t key; const char *found;
        CHECK(c->get_key(c, &key));
        CHECK(c->get_value(c, &found));
        if (key != count || strcmp(found, value)) return 2;
        count++;
    }
    printf("%ld\n", count);
    return 0;
}
C
  cc -O2 -w -o "$work/wt" "$work/wt.c" -lwiredtiger
  rules=wiredtiger
  fresh
  for victim in $victims; do
    for round in $(seq "$rounds"); do
      for kind in "type=lsm," ""; do
        rm -rf "$work/wtdb" && mkdir "$work/wtdb"
        begin "$work/wt" "$work/wtdb" write "${kind}key_format=q,value_format=S"
        kill_after "$victim" 5 "^[0-9]" "$work/said"
        answered=$(tail -1 "$work/said" | grep -o '^[0-9][0-9]*') ||
          stop "WiredTiger has said nothing before it was killed: $(cat "$work/error")"
        found=$(placed "$work/wt" "$work/wtdb" verify) || stop "WiredTiger does not open it"
        echo "WiredTiger (${kind:-type=file,}) $victim killed: $answered answered, $found found"
        [ "$found" -ge "$answered" ] || stop "records are gone"
        released
      done
    done
  done
}

sqlite() {
  local victim round answered found
  rules=sqlite
  fresh
  for victim in $victims; do
    for round in $(seq "$rounds"); do
      rm -f "$work"/s.db*
      { echo "pragma journal_mode=delete; pragma synchronous=full; create table t(a, b);"
        for n in $(seq 20000); do
          echo "insert into t values($n, randomblob(300)); select $n;"
        done; } >"$work/sql"
      # It stops at the first error: otherwise it would print the next number nevertheless.
      begin sqlite3 -bail "$work/s.db" ".read $work/sql"
      kill_after "$victim" 4 "^[0-9]" "$work/said"
      answered=$(grep -x '[0-9][0-9]*' "$work/said" | tail -1) ||
        stop "SQLite has said nothing before it was killed: $(cat "$work/error")"
      found=$(placed sqlite3 "$work/s.db" "pragma integrity_check; select count(*) from t;" | tr '\n' ' ')
      echo "SQLite, $victim killed: $answered answered, $found"
      case $found in "ok "*) ;; *) stop "SQLite's check fails" ;; esac
      [ "$(awk '{ print $2 }' <<<"$found")" -ge "$answered" ] || stop "rows are gone"
      released
    done
  done
}

# A cache in files: every answer after a kill must be correct.
nginx() {
  command -v nginx >/dev/null || { echo "nginx: not installed"; return; }
  local victim round wrong=0 asked=0 hits=0 n
  cat > "$work/rules.cache" <<'R'
name = "cache"
[[stream]]
name = "objects"
life = "medium"
[[rule]]
path = ["cache/**/[0-9a-f]*", "fill/**"]
stream = "objects"
R
  rules=$work/rules.cache
  mkdir -p "$work/origin"
  for n in $(seq 200); do head -c $((1000 * n)) /dev/urandom >"$work/origin/$n"; done
  fresh
  cat > "$work/nginx.conf" <<C
daemon off; master_process off; user root; pid $work/nginx.pid; error_log $work/nginx.err;
events {}
http {
  access_log off;
  proxy_cache_path $work/cache levels=1:2 keys_zone=c:1m use_temp_path=off;
  server { listen unix:$work/origin.sock; root $work/origin; }
  server { listen unix:$work/front.sock;
    location / { proxy_pass http://unix:$work/origin.sock; proxy_cache c;
      proxy_cache_valid 200 1h; add_header X-Cache \$upstream_cache_status; } }
}
C
  ask() { curl -s -m 5 --unix-socket "$work/front.sock" -D "$work/head" -o "$work/got" "http://x/$1"; }
  for victim in $victims; do
    for round in $(seq "$rounds"); do
      rm -f "$work"/*.sock
      begin nginx -c "$work/nginx.conf"
      sleep 1
      (for _ in $(seq 5); do for n in $(seq 200); do ask "$n" || true; done; done) &
      local clients=$!
      kill_after "$victim" 3
      kill "$clients" 2>/dev/null || true
      wait "$clients" 2>/dev/null || true
      rm -f "$work"/*.sock
      begin nginx -c "$work/nginx.conf"
      sleep 2
      for n in $(seq 200); do
        if ask "$n"; then
          asked=$((asked + 1))
          grep -q "X-Cache: HIT" "$work/head" && hits=$((hits + 1))
          cmp -s "$work/got" "$work/origin/$n" || wrong=$((wrong + 1))
        fi
      done
      kill -9 $(program)
      wait "$shim" 2>/dev/null || true
      shim=
      released
    done
  done
  echo "nginx: $asked answers after kills, $hits from its cache, $wrong wrong"
  [ "$wrong" = 0 ] || stop "nginx answers with what is wrong"
  [ "$hits" -gt 0 ] || stop "nothing came from the cache"
}

# Suites on files that match no rule give the same results with and without the library.
suites() {
  rules=rocksdb
  fresh
  if [ -x "${FSX:-}" ]; then
    # The name of its file matches no rule.
    placed "$FSX" -q -N "${FSX_COUNT:-20000}" "$work/fsx" >"$work/said" 2>&1 ||
      stop "fsx: $(tail -5 "$work/said")"
    echo "fsx under the library, ${FSX_COUNT:-20000} operations: $(tail -1 "$work/said")"
  fi
  if [ -d "${PJDFSTEST:-}" ]; then
    mkdir -p "$work/pjd"
    (cd "$work/pjd" && prove -r "$PJDFSTEST/tests") >"$work/alone" 2>&1 || true
    (cd "$work/pjd" && placed prove -r "$PJDFSTEST/tests") >"$work/with" 2>&1 || true
    echo "pjdfstest alone: $(tail -2 "$work/alone" | tr '\n' ' ')"
    echo "pjdfstest under the library: $(tail -2 "$work/with" | tr '\n' ' ')"
    # Only times may differ.
    diff <(grep -E '^[^ ]+/[0-9]+\.t' "$work/alone") <(grep -E '^[^ ]+/[0-9]+\.t' "$work/with") ||
      stop "pjdfstest differs"
  fi
}

for part in $parts; do "$part"; done
