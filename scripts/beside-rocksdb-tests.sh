#!/usr/bin/env bash
# Runs RocksDB's own unit tests under the placing library: alone, with hints, and with their files
# in zones. Tests that pass alone must pass with the library.
#
#   scripts/beside-rocksdb-tests.sh SOURCE [TEST...]
#
# SOURCE is RocksDB's source of the installed version (librocksdb-dev; its tag is v7.8.3 on Debian
# 12). The tests are linked to the installed library, which works for tests that use no symbol of
# debug builds only. Needs g++, and Linux' shared memory. FLASHLOOM selects another flashloom than
# target/release's; LIMIT is the time limit of a run in seconds (600).
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
[ $# -gt 0 ] || stop "expected the folder of RocksDB's source"
source=$(cd "$1" && pwd)
shift
tests=${*:-env_basic_test io_posix_test manual_compaction_test sst_file_reader_test ttl_test \
  stringappend_test comparator_db_test options_util_test}
limit=${LIMIT:-600}

built
need g++ timeout
[ -e /usr/include/rocksdb/version.h ] || stop "librocksdb-dev is not installed"
version() { grep -E '#define ROCKSDB_(MAJOR|MINOR|PATCH)' "$1/rocksdb/version.h"; }
[ "$(version /usr/include)" = "$(version "$source/include")" ] ||
  stop "$source is another version than the installed one: $(version /usr/include | tr '\n' ' ')"

work=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work"' EXIT
emulated_zones "$work/drive" 96 16

gtest=$source/third-party/gtest-1.8.1/fused-src
compile() {
  g++ -std=c++17 -O0 -w -fno-rtti -DNDEBUG -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX \
    -DOS_LINUX -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT \
    -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_PTHREAD_ADAPTIVE_MUTEX \
    -DROCKSDB_SUPPORT_THREAD_LOCAL -I"$source" -I"$source/include" -I"$gtest" -c "$1" -o "$2"
}

for common in "$gtest/gtest/gtest-all.cc" "$source/test_util/testharness.cc" \
  "$source/test_util/testutil.cc"; do
  compile "$common" "$work/$(basename "$common" .cc).common.o"
done

# run TEST HOW WORD...: lists the cases that pass, sorted by name, and records the exit status: a
# program may end with a signal after all its cases.
run() {
  local test=$1 how=$2 status=0
  shift 2
  rm -rf "$work/tmp"
  mkdir "$work/tmp"
  TEST_TMPDIR=$work/tmp timeout "$limit" "$@" "$work/$test" >"$work/said" 2>&1 || status=$?
  [ "$status" != 124 ] || stop "$test, $how, takes longer than $limit s"
  sed -n 's/^\[       OK \] \([^ ]*\).*/\1/p' "$work/said" | sort >"$work/$how"
  [ -s "$work/$how" ] || stop "$test, $how, passes nothing: $(tail -n 5 "$work/said")"
  statuses+=" $how $status"
}

# Number of zones that have data.
written() { find "$work/drive/seq" -size +0 | wc -l; }

differ=0
for test in $tests; do
  file=$(find "$source" -name "$test.cc")
  [ -n "$file" ] || stop "$source has no $test.cc"
  compile "$file" "$work/$test.o"
  g++ "$work/$test.o" "$work"/*.common.o -o "$work/$test" -lrocksdb -lpthread
  statuses=
  run "$test" alone env
  run "$test" hints "$flashloom" shim --rules rocksdb --
  run "$test" zones "$flashloom" shim --rules rocksdb --zones "$work/drive" --
  for how in hints zones; do
    lost=$(comm -23 "$work/alone" "$work/$how")
    [ -z "$lost" ] || { differ=1 && printf '%s, with %s, does not pass:\n%s\n' "$test" "$how" "$lost"; }
  done
  echo "$test: $(wc -l <"$work/alone") pass alone, $(wc -l <"$work/hints") with hints," \
    "$(wc -l <"$work/zones") in zones; $(written) zones are written; ended by$statuses"
done
[ "$differ" = 0 ] || stop "not all that passes alone passes with the library"
[ "$(written)" -gt 0 ] || stop "no file was placed in a zone"
