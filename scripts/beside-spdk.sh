#!/usr/bin/env bash
# Compares the speed of `flashloom serve --nvme-tcp` with SPDK's target over TCP, which keeps its
# data in memory.
#
#   SPDK=FOLDER scripts/beside-spdk.sh      # where SPDK 24.01 or later is built
#
# The client is SPDK's `spdk_nvme_perf`, 4 KiB at random, 32 requests at a time on each connection.
# Servers have one processor and the client another. SPDK's target polls its sockets without pause,
# so only one server runs at a time; they take turns round by round, and ratios are taken within a
# round. `protected` is a drive whose writes are durable when acknowledged, `plain` one whose
# flushes are; both are drives in files. The last column is the median of the ratios to SPDK's
# target, and the script fails if that is below a half.
#
# Environment: FLASHLOOM, ROUNDS (5), SECONDS_EACH (4), SIZE in MiB (1024), PORT (44300), FOLDER
# for the drive files (a temporary one). Needs root for memory in large pages, which it
# gives back.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

measured
root "large pages"
need python3 taskset unshare
alone "$@"
target=${SPDK:?names the folder of a build of SPDK}/build/bin/nvmf_tgt
perf=$SPDK/build/bin/spdk_nvme_perf
# Folder of the shared libraries, if SPDK was built with them.
export LD_LIBRARY_PATH=$SPDK/build/lib
for program in "$target" "$perf"; do
  [ -x "$program" ] || stop "$program is not built"
done
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4} size=${SIZE:-1024} port=${PORT:-44300}
nqn=nqn.2026-01.org.example:drive
folder=${FOLDER:-$(mktemp -d)}
pages=$(cat /proc/sys/vm/nr_hugepages)
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  wait
  umount "$folder/large" 2>/dev/null || true
  echo "$pages" >/proc/sys/vm/nr_hugepages
  rm -f "$folder"/{protected.flash,plain.flash,plain.toml,spdk.json,server,client,measured}
  rmdir "$folder/large"
  [ -n "${FOLDER:-}" ] || rmdir "$folder"
}
trap cleanup EXIT
trap 'exit 2' INT TERM
echo $((size / 2 + 768)) >/proc/sys/vm/nr_hugepages
mkdir "$folder/large"
mount -t hugetlbfs none "$folder/large"

"$flashloom" drive create "$folder/protected.flash" --preset block --size "${size}MiB" >/dev/null
printf 'preset = "block"\n[controller]\npower_loss_protection = false\n' >"$folder/plain.toml"
"$flashloom" drive create "$folder/plain.flash" --preset "$folder/plain.toml" \
  --size "${size}MiB" >/dev/null
cat >"$folder/spdk.json" <<END
{"subsystems": [
  {"subsystem": "bdev", "config": [{"method": "bdev_malloc_create", "params":
    {"name": "memory", "num_blocks": $((size * 256)), "block_size": 4096}}]},
  {"subsystem": "nvmf", "config": [
    {"method": "nvmf_create_transport", "params": {"trtype": "TCP"}},
    {"method": "nvmf_create_subsystem", "params": {"nqn": "$nqn", "allow_any_host": true}},
    {"method": "nvmf_subsystem_add_ns", "params":
      {"nqn": "$nqn", "namespace": {"bdev_name": "memory"}}},
    {"method": "nvmf_subsystem_add_listener", "params": {"nqn": "$nqn", "listen_address":
      {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": "$port"}}}]}]}
END

# start NAME: starts the server of that name, and waits until it listens.
start() {
  case $1 in
    spdk) exec taskset -c 0 "$target" -m 0x1 -s $((size + 512)) -c "$folder/spdk.json" ;;
    *) exec taskset -c 0 "$flashloom" serve "$folder/$1.flash" --nvme-tcp "127.0.0.1:$port" \
      --nqn "$nqn" --latency off ;;
  esac >"$folder/server" 2>&1 &
  server=$!
  local tries
  for tries in $(seq 300); do
    if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
    kill -0 "$server" 2>/dev/null || stop "$1 has ended: $(tail -1 "$folder/server")"
    sleep 0.1
  done
  stop "$1 does not listen after $tries tries"
}

finish() {
  kill "$server"
  wait "$server" || true
  server=
}

# client LOAD CONNECTIONS SECONDS BYTES DEPTH: prints requests a second.
client() {
  "$perf" --no-huge -s 512 -c 0x2 -q "$5" -o "$4" -w "$1" -t "$3" -P "$2" \
    -r "trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:$port subnqn:$nqn" >"$folder/client" 2>&1 ||
    stop "the client failed: $(tail -1 "$folder/client")"
  awk '/^Total/ { print $3; exit }' "$folder/client"
}

# The servers read data that were written before: SPDK's memory is empty at each start.
for name in protected plain; do
  start "$name"
  client write 1 10 1048576 4 >/dev/null
  finish
done

measured=$folder/measured
: >"$measured"
for load in randread randwrite; do
  for connections in 1 4; do
    for round in $(seq "$rounds"); do
      for name in spdk protected plain; do
        start "$name"
        echo "$load $connections $round $name $(client "$load" "$connections" "$seconds" 4096 32)" \
          >>"$measured"
        finish
      done
    done
  done
done
python3 - "$measured" "$rounds" "$seconds" "$size" <<'END'
import os, statistics, sys
path, rounds, seconds, size = sys.argv[1:]
rows = [line.split() for line in open(path)]
print(f"4 KiB, 32 requests at a time on each connection, {rounds} rounds of {seconds} s, "
      f"{size} MiB, load {os.getloadavg()[0]:.1f}")
found = {(l, int(c), int(r), n): float(rate) for l, c, r, n, rate in rows}
failed = False
for load, connections in sorted({(l, c) for l, c, _, _ in found}):
    for name in ["spdk", "protected", "plain"]:
        each = range(1, int(rounds) + 1)
        rates = [found[load, connections, r, name] for r in each]
        ratios = [found[load, connections, r, name] / found[load, connections, r, "spdk"]
                  for r in each]
        ratio = statistics.median(ratios)
        failed |= ratio < 0.5
        print(f"{load:9} {connections} connection(s) {name:9} "
              f"{statistics.median(rates):9.0f} a second  {ratio:5.2f} of SPDK's")
sys.exit(failed)
END
