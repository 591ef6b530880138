#!/bin/sh
# Measures the lateness of answers with `--latency model`: the excess of the median latency over the
# model's time, as a share of that time, at 20,000 requests a second.
#
#   cargo build --profile bench
#   scripts/lateness.sh [PROGRAM]      # default: target/release/flashloom
#
# fio reads and writes at random through NBD at a fixed rate, with enough requests under way to keep
# that rate. Server and client have a processor each: on a shared one, a client woken by an answer
# runs before the server continues, and its next request then counts as an earlier arrival. The
# server's own statistics (`drive stats`) span the time from receiving a request to handing its
# answer to the system; fio's numbers include both ways through the sockets. Fails if the median
# error is 5 % or more for a drive that takes 50 us or more, as flash reads do; writes end in the
# buffer, sooner.
#
# On a busy machine, as root, `chrt -r 1 scripts/lateness.sh` runs both before everything else.
#
# Environment: RATE (20000), SECONDS_EACH (10), FOLDER. Needs fio with its nbd engine.
set -eu

program=${1:-target/release/flashloom}
rate=${RATE:-20000}
seconds=${SECONDS_EACH:-10}
folder=${FOLDER:-$(mktemp -d)}
case $program in */*) program=$(realpath "$program") ;; esac
for tool in fio python3 taskset; do
    command -v "$tool" > /dev/null || { echo "$tool is not here" >&2; exit 2; }
done
cd "$folder"
pid=
cleanup() {
    [ -z "$pid" ] || kill "$pid" 2> /dev/null || true
    wait
    rm -f d.flash n.sock out.json stats.json
    [ -n "${FOLDER:-}" ] || rmdir "$folder"
}
trap cleanup EXIT
trap 'exit 2' INT TERM

"$program" drive create d.flash --preset block --size 256MiB > /dev/null
status=0
for rw in randread randwrite; do
    # Each run starts with a full drive and new counters, because counters restart at power-on.
    "$program" serve d.flash --nbd unix:n.sock --latency off > /dev/null 2>&1 &
    pid=$!
    until [ -S n.sock ]; do sleep 0.1; done
    fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$folder/n.sock" --rw=write \
        --bs=1m --iodepth=4 --size=256m > /dev/null
    kill "$pid"
    wait "$pid" || true
    rm -f n.sock
    taskset -c 0 "$program" serve d.flash --nbd unix:n.sock --latency model > /dev/null 2>&1 &
    pid=$!
    until [ -S n.sock ]; do sleep 0.1; done
    timeout 120 taskset -c 1 fio --name=client --ioengine=nbd --uri="nbd+unix:///?socket=$folder/n.sock" \
        --rw="$rw" --bs=4k --iodepth=16 --size=256m --time_based --runtime="$seconds" \
        --rate_iops="$rate" --output-format=json --output=out.json > /dev/null
    "$program" drive stats d.flash --json > stats.json
    kill "$pid"
    wait "$pid" || true
    pid=
    rm -f n.sock
    python3 - "$rw" << 'END' || status=1
import json, os, sys
late = json.load(open("stats.json"))["lateness"]
text = open("out.json").read()
job = json.loads(text[text.index("{"):])["jobs"][0]
found = job["read" if sys.argv[1] == "randread" else "write"]
p = found["clat_ns"]["percentile"]
print(f"{sys.argv[1]:9} {found['iops']:7.0f} a second, load {os.getloadavg()[0]:.1f}: late "
      f"{late['median_ns'] / 1e3:.1f} us median ({late['median_error'] * 100:.1f} %), "
      f"{late['p99_ns'] / 1e3:.0f} us p99 ({late['p99_error'] * 100:.0f} %); "
      f"fio sees {p['50.000000'] / 1e3:.0f} us median, {p['99.000000'] / 1e3:.0f} us p99")
sys.exit(sys.argv[1] == "randread" and late["median_error"] >= 0.05)
END
done
exit $status
