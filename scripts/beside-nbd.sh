#!/bin/sh
# Compares the speed of `flashloom serve --nbd` with nbdkit's memory plug-in and qemu-nbd.
#
#   cargo build --profile bench
#   scripts/beside-nbd.sh [PROGRAM]      # default: target/release/flashloom
#
# Four servers of equal size run at once, and one client after the other uses each of them, round by
# round, so that other load of the machine affects all alike. Ratios are taken within a round; the
# last lines have their medians. `protected` is a drive whose writes are durable when acknowledged,
# so that each is in its file by then; `plain` is one whose flushes are. nbdkit and qemu-nbd promise
# neither here. The last column has the processor time of a server for each request: on a busy
# machine that is the steadier number, because the rates depend on the number of threads that a
# server competes with. As root, `chrt -r 1 scripts/beside-nbd.sh` runs servers and clients before
# everything else.
#
# Environment: ROUNDS (5), SECONDS_EACH (4), SIZE in MiB (1024), FOLDER for the drive files
# and the image (a temporary one). Needs fio with its nbd engine, nbdkit and qemu-nbd.
set -eu

program=${1:-target/release/flashloom}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-4}
size=${SIZE:-1024}
folder=${FOLDER:-$(mktemp -d)}
case $program in */*) program=$(realpath "$program") ;; esac
for tool in fio nbdkit qemu-nbd qemu-img python3; do
    command -v "$tool" > /dev/null || { echo "$tool is not here" >&2; exit 2; }
done
cd "$folder"

pids=
cleanup() {
    for pid in $pids; do kill "$pid" 2> /dev/null || true; done
    wait
    rm -f protected.flash plain.flash plain.toml image.raw protected.sock plain.sock \
        nbdkit.sock qemu.sock result.json
    [ -n "${FOLDER:-}" ] || rmdir "$folder"
}
trap cleanup EXIT
trap 'exit 2' INT TERM

"$program" drive create protected.flash --preset block --size "${size}MiB" > /dev/null
printf 'preset = "block"\n[controller]\npower_loss_protection = false\n' > plain.toml
"$program" drive create plain.flash --preset plain.toml --size "${size}MiB" > /dev/null
qemu-img create -q -f raw image.raw "${size}M"

start() {
    name=$1
    shift
    "$@" > /dev/null 2>&1 &
    pids="$pids $!"
    eval "pid_$name=$!"
    tries=0
    until [ -S "$name.sock" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "$name does not listen" >&2; exit 2; }
        sleep 0.1
    done
}
start protected "$program" serve protected.flash --nbd unix:protected.sock
start plain "$program" serve plain.flash --nbd unix:plain.sock
start nbdkit nbdkit -f -U nbdkit.sock memory "${size}M"
start qemu qemu-nbd -t -e 16 -f raw -k "$folder/qemu.sock" image.raw

client() {
    fio --name=client --ioengine=nbd --uri="nbd+unix:///?socket=$folder/$1.sock" --rw="$2" \
        --bs="$3" --iodepth="$4" --numjobs="$5" --group_reporting --size="${size}m" \
        --output-format=json --output=result.json --randrepeat=0 "$6" > /dev/null
}
servers="protected plain nbdkit qemu"
# The servers read data that were written before, on all of them.
for server in $servers; do client "$server" write 1m 4 1 --loops=1; done

# shellcheck disable=SC2154 # the numbers are set by start
python3 - "$folder" "$rounds" "$seconds" "$size" "$pid_protected" "$pid_plain" "$pid_nbdkit" \
    "$pid_qemu" << 'END'
import json, os, statistics, subprocess, sys
folder, rounds, seconds, size = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
pids = dict(zip(["protected", "plain", "nbdkit", "qemu"], sys.argv[5:]))
tick = os.sysconf("SC_CLK_TCK")

def cpu(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / tick

def measure(server, rw, jobs):
    before = cpu(pids[server])
    out = subprocess.run(
        ["timeout", "120", "fio", "--name=client", "--ioengine=nbd",
         f"--uri=nbd+unix:///?socket={folder}/{server}.sock", f"--rw={rw}", "--bs=4k",
         "--iodepth=32", f"--numjobs={jobs}", "--group_reporting", f"--size={size}m",
         "--time_based", f"--runtime={seconds}", "--output-format=json", "--randrepeat=0"],
        capture_output=True, text=True, check=True).stdout
    job = json.loads(out[out.index("{"):])["jobs"][0]
    found = job["read" if rw == "randread" else "write"]
    spent = (cpu(pids[server]) - before) / max(found["total_ios"], 1) * 1e6
    return found["iops"], spent

print(f"4 KiB, 32 requests at a time on each connection, {rounds} rounds of {seconds} s, "
      f"{size} MiB in {folder}, load {os.getloadavg()[0]:.1f}")
for rw in ["randread", "randwrite"]:
    for jobs in [1, 4]:
        found = {server: [] for server in pids}
        for _ in range(rounds):
            for server in pids:
                found[server].append(measure(server, rw, jobs))
        for server in pids:
            iops = statistics.median(iops for iops, _ in found[server])
            spent = statistics.median(spent for _, spent in found[server])
            print(f"{rw:9} {jobs} connection(s) {server:9} {iops:9.0f} a second "
                  f"{spent:6.1f} us of processor each")
        for ours in ["protected", "plain"]:
            for theirs in ["nbdkit", "qemu"]:
                pairs = zip(found[ours], found[theirs])
                ratio = statistics.median(a[0] / b[0] for a, b in pairs)
                print(f"{rw:9} {jobs} connection(s) {ours:9} / {theirs:6} {ratio:6.2f}")
END
