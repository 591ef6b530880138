#!/usr/bin/env bash
# Runs MQSim's default workloads and sample traces in MQSim and in Flashloom, one
# after the other, and prints requests, processor time and their ratio.
#
#   scripts/beside-mqsim.sh [CHECKOUT]
#
# CHECKOUT is a clone of https://github.com/CMU-SAFARI/MQSim, whose sources and
# traces are left as they are; without it one is made in target/mqsim, at the
# commit that docs/mqsim was written for. Results of both go to
# target/beside-mqsim. FLASHLOOM names another flashloom than target/release's.
#
# Needs bash, awk, sed, GNU time, and to build: cargo, make, g++ and (to clone) git.
#
# Requests of the generated cases are those that MQSim completes in 10 s of virtual time. A trace is
# shorter than the start of either program, so both repeat it, to a million requests (in MQSim the
# delays mean nothing after the first pass, but its processor time does). Times are of the
# processor, user and system. The time for a single request of a case is shown as the start-up, and
# subtracted in the second pair of columns. A full drive takes Flashloom seconds to start, so there
# a trace is run another ten times as often; a time is not shown if less than a fifth of the
# start-up remains of it.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
commit=7ec40e3
work=$repository/target/beside-mqsim
inputs=$repository/docs/mqsim
mkdir -p "$work"

[ $# -le 1 ] || stop "expected at most one argument, a checkout of MQSim"
need awk sed make
[ -x /usr/bin/time ] || stop "GNU time is not installed (on Debian: apt-get install time)"

if [ $# -eq 1 ]; then
  mqsim=$(cd "$1" && pwd) || stop "no directory is called $1"
else
  mqsim=$repository/target/mqsim
  if [ ! -d "$mqsim" ]; then
    git clone --quiet https://github.com/CMU-SAFARI/MQSim "$mqsim"
    git -C "$mqsim" checkout --quiet "$commit"
  fi
fi
[ -f "$mqsim/ssdconfig.xml" ] || stop "$mqsim is no checkout of MQSim: it has no ssdconfig.xml"
[ -x "$mqsim/MQSim" ] || make -s -C "$mqsim" >"$work/make.log" 2>&1 ||
  stop "MQSim cannot be built; see $work/make.log"
measured

# One scenario of MQSim's workload.xml as a file of its own.
scenario() {
  awk -v want="$1" '
    BEGIN { print "<?xml version=\"1.0\" encoding=\"us-ascii\"?>\n<MQSim_IO_Scenarios>" }
    /<IO_Scenario>/ { n++; on = n == want }
    on { print }
    /<\/IO_Scenario>/ { on = 0 }
    END { print "</MQSim_IO_Scenarios>" }' "$mqsim/workload.xml"
}

# Runs a command: processor seconds and KiB go to $work/NAME.time, its output to $work/NAME.out.
timed() {
  local name=$1
  shift
  /usr/bin/time -o "$work/$name.time" -f '%U %S %M' "$@" </dev/null \
    >"$work/$name.out" 2>"$work/$name.err" ||
    stop "$* failed; see $work/$name.err and $work/$name.out"
  awk '{ print $1 + $2, $3 }' "$work/$name.time" >"$work/$name.sum"
  mv "$work/$name.sum" "$work/$name.time"
}

# Runs $work/NAME.xml; MQSim finds traces from its own directory.
in_mqsim() {
  (cd "$mqsim" && timed "$1" ./MQSim -i ssdconfig.xml -w "$work/$1.xml")
}

# in_flashloom NAME PRECONDITION WORKLOAD
in_flashloom() {
  timed "$1" "$flashloom" run raw@block --drive "$inputs/mqsim.toml" \
    --precondition "$2" --workload "$3" --json
}

# The first field called NAME in a JSON document, in the layout of our documents.
field() {
  sed -n "s/^  \"$2\": \([0-9]*\).*/\1/p" "$work/$1.out"
}

serviced() {
  sed -n 's/.*total requests serviced:\([0-9]*\).*/\1/p' "$work/$1.out" |
    awk '{ sum += $1 } END { print sum + 0 }'
}

# Two lines of the table. Arguments: the case; run and start-up of MQSim; run and start-up of
# Flashloom; and the longer run of Flashloom, if there is one.
line() {
  local theirs ours long=${6:-$4} most
  theirs=$(serviced "$2")
  ours=$(field "$4" ops)
  most=$(field "$long" ops)
  [ "$theirs" -gt 0 ] && [ "${ours:-0}" -gt 0 ] && [ "${most:-0}" -gt 0 ] ||
    stop "no requests were counted in $1"
  awk -v name="$1" -v theirs="$theirs" -v ours="$ours" -v most="$most" \
    -v a="$(cat "$work/$2.time")" -v b="$(cat "$work/$3.time")" \
    -v c="$(cat "$work/$4.time")" -v d="$(cat "$work/$5.time")" \
    -v e="$(cat "$work/$long.time")" '
    # Requests a second, unless start-up leaves too little time to tell.
    function speed(requests, seconds, start) {
      return seconds - start < 0.05 + start / 5 ? 0 : requests / (seconds - start)
    }
    function shown(rate) { return rate ? sprintf("%.0f", rate) : "-" }
    function ratio(a, b) { return a && b ? sprintf("%.1f", b / a) : "-" }
    function row(what, requests, taken, start, whole, r, net, s, kib) {
      printf "%-14s %-9s %9d %8.2f %9.2f %11s %7s %11s %7s %6.0f\n", \
        name, what, requests, taken, start, shown(whole), r, shown(net), s, kib / 1024
    }
    BEGIN {
      split(a, t); split(b, ts); split(c, o); split(d, os); split(e, l)
      tw = speed(theirs, t[1], 0); tn = speed(theirs, t[1], ts[1])
      ow = speed(ours, o[1], 0); on = speed(most, l[1], os[1])
      row("MQSim", theirs, t[1], ts[1], tw, "", tn, "", t[2])
      row("Flashloom", ours, o[1], os[1], ow, ratio(tw, ow), on, ratio(tn, on), o[2])
    }'
}

head -n 1 "$mqsim/traces/tpcc-small.trace" >"$work/one.trace"
scenario 3 | sed "s|traces/tpcc-small.trace|$work/one.trace|" >"$work/theirs-start.xml"
scenario 1 >"$work/theirs-write.xml"
scenario 2 >"$work/theirs-read.xml"
# The passes that make a million requests of each sample.
declare -A passes=([tpcc-small]=143 [wsrch-small]=41)
for trace in "${!passes[@]}"; do
  scenario 3 | sed -e "s|tpcc-small|$trace|" \
    -e "s|<Relay_Count>1<|<Relay_Count>${passes[$trace]}<|" >"$work/theirs-$trace.xml"
done

in_mqsim theirs-start
in_flashloom ours-start-fresh fresh randread:ops=1
in_flashloom ours-start-full full randread:ops=1

printf '%-14s %-9s %9s %8s %9s %11s %7s %11s %7s %6s\n' case program requests seconds \
  start_up_s requests/s ratio without_it ratio MiB
in_mqsim theirs-write
in_flashloom ours-write fresh "$inputs/random-write.fio"
line random-write theirs-write theirs-start ours-write ours-start-fresh
in_mqsim theirs-read
in_flashloom ours-read full "$inputs/random-read.fio"
line random-read theirs-read theirs-start ours-read ours-start-full
for trace in tpcc-small wsrch-small; do
  in_mqsim "theirs-$trace"
  sample=$mqsim/traces/$trace.trace:format=mqsim
  in_flashloom "ours-$trace" full "$sample,repeat=${passes[$trace]}"
  in_flashloom "ours-$trace-long" full "$sample,repeat=${passes[$trace]}0"
  line "$trace" "theirs-$trace" theirs-start "ours-$trace" ours-start-full "ours-$trace-long"
done
echo "requests/s: requests over processor seconds. without_it: the same less start_up_s."
