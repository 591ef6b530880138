#!/usr/bin/env bash
# Cuts the power of file systems many times: over every generator, calls of every kind, a cache that
# evicts, a disk that is full again and again, and recordings of programs; on each drive and each
# mode of the journal, with and without power-loss protection.
#
#   scripts/many-cuts.sh [CUTS [SEED]]
#
# CUTS (100000) is the approximate number of cuts, besides those during recovery; they are shared
# among the cases, and a short run has fewer events to cut at. SEED (1) is the first seed: equal
# numbers give equal cuts. Prints one line for each case, then the totals, and the commands that
# repeat the first three failures of a case. The exit status is 1 if data were lost or corrupt. Then
# it prints the states of logs in drives, and of HyFiM's journals and mapping, that the cuts met:
# the exit status is also 1 if ByteFS or HyFiM was cut 10000 times and one of these states was never
# met. FLASHLOOM selects another flashloom than target/release's, RECORDINGS a directory of `.flt`
# files, which are cut as well as that of RocksDB, and ONLY an extended regular expression that
# selects cases. No path may contain a space. Needs e2fsprogs, f2fs-tools, btrfs-progs and jq.
set -euo pipefail

repository=$(cd "$(dirname "$0")/.." && pwd)
flashloom=${FLASHLOOM:-$repository/target/release/flashloom}
cuts=${1:-100000}
seed=${2:-1}

stop() {
  echo "many-cuts: $*" >&2
  exit 2
}

[ -x "$flashloom" ] || stop "$flashloom is not built (cargo build --release)"
for tool in e2fsck fsck.f2fs btrfs jq; do
  command -v "$tool" >/dev/null || stop "$tool is not installed"
done

# Lines of: share of the cuts, stack, workload, further options.
cases() {
  local generators=(
    varmail:files=50,threads=4,ops=600
    fileserver:files=30,threads=4,size=32k,ops=500
    webproxy:files=40,threads=4,ops=500
    webserver:files=30,threads=4,ops=400
    oltp:files=2,threads=8,size=256k,ops=500
    create:files=80,threads=4,fsync=yes
    delete:files=80,threads=4
    mkdir:files=60,threads=4
    rmdir:files=60,threads=4
    overwrite:bs=512:4k:6000,size=512k,threads=2,fsync=8,ops=400
    append:bs=100:4k:6000,threads=3,fsync=5,ops=400
    overwrite:bs=4k,size=512k,direct=yes,fsync=6,ops=300
  )
  local kv=(a b c d e f)
  local stacks=(ext4@block ext4@streams ext4@fdp ext4+writeback@block
    ext4+journal@block ext4+discard@block ext4+journal+discard@fdp)
  local stack one
  for one in "${generators[@]}"; do
    echo "2 ext4@block $one"
  done
  for one in "${kv[@]}"; do
    echo "1 ext4@block ycsb-$one:records=400,threads=4,ops=500,memtable=64k,table=64k,base=128k,sync=yes"
    echo "1 ext4@fdp ycsb-$one:engine=btree,records=400,threads=4,ops=400,cache=128k,checkpoint=64k,sync=yes"
  done
  for stack in "${stacks[@]}"; do
    echo "1 $stack varmail:files=50,threads=12,append=4k,ops=700"
    echo "1 $stack fileserver:files=30,threads=4,size=32k,ops=400"
    echo "4 $stack anything:ops=1200"
    echo "2 $stack anything:ops=1200,threads=8,size=256k --page-cache 256KiB"
    echo "2 $stack anything:ops=1200,size=256k,room=64k --size 64MiB"
    echo "1 $stack anything:ops=800 --precondition aged"
    echo "1 $stack anything:ops=1000 --set controller.power_loss_protection=true"
    echo "1 $stack varmail:files=50,threads=4,ops=500 --set controller.power_loss_protection=true"
  done
  large_files
  logs "${generators[@]}"
  copies "${generators[@]}"
  remapped
  by_bytes "${generators[@]}"
  recordings
}

# Log-structured file systems, on blocks and on zones: a drive so small that sections are cleaned
# and their tables move between zones all the time, and both ways to place chunk pages.
logs() {
  local one stack
  for stack in f2fs@block f2fs@zns persimmon@zns persimmon+paired+lean@zns; do
    if ! has "$stack"; then continue; fi
    for one in "$@"; do
      echo "1 $stack $one"
    done
    for one in a b c d e f; do
      echo "1 $stack ycsb-$one:records=400,threads=4,ops=500,memtable=64k,table=64k,base=128k,sync=yes"
    done
    echo "8 $stack anything:ops=900,size=256k,room=64k"
    echo "8 $stack anything:ops=1200,threads=8"
    echo "4 $stack anything:ops=3000,threads=8,size=256k --page-cache 256KiB"
    echo "2 $stack anything:ops=1200 --set controller.power_loss_protection=true"
    echo "2 $stack overwrite:bs=4k,size=16m,threads=2,fsync=3000,ops=12000"
  done
  echo "4 f2fs+discard@block anything:ops=900,size=256k,room=64k"
  echo "4 f2fs+lfs@block anything:ops=900,size=256k,room=64k"
}

# A layer that remaps addresses: under block requests that fill a small drive again and again, so
# that it cleans, and under file systems.
remapped() {
  local one stack
  for stack in raw+remap@block raw+remap-tree@block raw+remap-lean@block \
    raw+remap-lean+remap-trim@block; do
    for one in fresh full; do
      echo "8 $stack randwrite:ops=3000,bs=4k/70:16k/20:128k/10,flush=20,depth=8 --size 32MiB --precondition $one"
      echo "4 $stack zipfwrite:ops=4000,bs=4k,flush=7,depth=4 --size 32MiB --precondition $one"
    done
  done
  for stack in ext4+remap@block ext4+discard+remap-lean+remap-trim@block f2fs+remap@block; do
    echo "4 $stack anything:ops=1200"
    echo "2 $stack anything:ops=1200,threads=8,size=256k --page-cache 256KiB"
    echo "2 $stack varmail:files=50,threads=4,ops=600"
  done
}

# Trees with copy-on-write, and trees that are changed in place through a mapping in persistent
# memory: also with journals and spare sectors that run out.
copies() {
  local one stack times
  for stack in hyfim@ocssd hyfim+lean@ocssd hyfim+lean+dup+discard@ocssd btrfs@ocssd \
    btrfs-nocow@ocssd btrfs@block btrfs-nocow@block btrfs+dup@block; do
    if ! has "$stack"; then continue; fi
    # New parts are cut more often than the baselines.
    case $stack in hyfim*) times=2 ;; *) times=1 ;; esac
    for one in "$@"; do
      echo "$times $stack $one"
    done
    for one in a b c d e f; do
      echo "$times $stack ycsb-$one:records=400,threads=4,ops=500,memtable=64k,table=64k,base=128k,sync=yes"
    done
    echo "$((2 * times)) $stack iozone:size=1m,make=64k,bs=4k,order=random"
    echo "$((8 * times)) $stack anything:ops=900,size=256k,room=64k"
    echo "$((8 * times)) $stack anything:ops=1200,threads=8"
    echo "$((4 * times)) $stack anything:ops=3000,threads=8,size=256k --page-cache 256KiB"
    echo "$((2 * times)) $stack overwrite:bs=4k,size=16m,threads=2,fsync=3000,ops=12000"
    # Each force takes a unit of flash, so that the mapping below is cleaned.
    echo "$((4 * times)) $stack overwrite:bs=4k,size=8m,threads=2,fsync=1,ops=6000"
  done
  # Memory with delays, on a drive that is cleaned almost always: then sectors of a publication are
  # on lines being cleaned, more often if the publication has many.
  for stack in hyfim+optane@ocssd hyfim+optane+lean@ocssd hyfim+slow@ocssd; do
    if ! has "$stack"; then continue; fi
    echo "4 $stack overwrite:bs=4k,size=20m,threads=2,fsync=4,ops=16000 --size 64MiB"
    echo "8 $stack overwrite:bs=4k,size=20m,threads=2,fsync=200,ops=20000 --size 64MiB"
  done
  # A snapshot of data that are overwritten afterwards.
  for stack in hyfim@ocssd hyfim+lean@ocssd btrfs@ocssd btrfs-nocow@ocssd; do
    if ! has "$stack"; then continue; fi
    for one in "$@"; do
      echo "1 $stack $one --snapshot"
    done
    echo "4 $stack anything:ops=1200,threads=8 --snapshot"
    echo "4 $stack overwrite:bs=4k,size=2m,threads=2,fsync=6,ops=2000 --snapshot"
  done
}

# Files of several batches of write-back.
large_files() {
  local one
  for one in "ext4@block --set controller.power_loss_protection=true" ext4+journal@block \
    ext4@byte bytefs@byte bytefs+journal@byte; do
    # A stack, then further options.
    # shellcheck disable=SC2086
    set -- $one
    if ! has "$1"; then continue; fi
    echo "2 $1 overwrite:bs=4k,size=16m,threads=2,fsync=3000,ops=12000 ${*:2}"
  done
}

# Whether this flashloom has a stack, whatever its variant.
has() {
  local variant=${1%@*}
  grep -q "^${variant%%+*}@${1#*@} " <<<"$stacks_known"
}

# Sizes of logs: one that is cleaned all the time; one hardly larger than the lines that the largest
# call reserves; one whose commit entries fill up first; and one that is cleaned only when full, so
# that stores wait for it.
small_log="--set front.log.bytes=1MiB --set front.log.commits=256"
tight_log="--set front.log.bytes=896KiB --set front.log.commits=256"
few_commits="--set front.log.bytes=2MiB --set front.log.commits=16"
full_log="--set front.log.bytes=896KiB --set front.log.clean_percent=100"
small_cache="--set front.cache.bytes=1MiB"

# Lines for byte-addressable drives: share of the cuts, stack, options of the drive.
drives() {
  echo "2 bytefs@byte $small_log"
  echo "1 bytefs@byte $few_commits"
  local stack
  for stack in bytefs-log@byte bytefs+journal@byte; do
    if has "$stack"; then echo "1 $stack $small_log"; fi
  done
  for stack in bytefs-dual@byte pmfs@byte nova@byte ext4@byte f2fs@byte; do
    if has "$stack"; then echo "1 $stack $small_cache"; fi
  done
}

by_bytes() {
  local one share stack rest
  for one in "$@"; do
    while read -r share stack rest; do
      echo "$share $stack $one $rest"
    done < <(drives)
  done
  for one in a b c d e f; do
    echo "1 bytefs@byte ycsb-$one:records=400,threads=4,ops=500,memtable=64k,table=64k,base=128k,sync=yes $small_log"
  done
  echo "4 bytefs@byte delete:files=8000,threads=8 $full_log"
  for stack in bytefs@byte bytefs-log@byte bytefs+discard@byte; do
    echo "4 $stack anything:ops=1200"
    echo "4 $stack anything:ops=1200 --set front.log.bytes=1MiB --set front.log.commits=64"
    echo "4 $stack anything:ops=3000,threads=8,size=256k $tight_log"
    echo "4 $stack anything:ops=3000,threads=8,size=256k $few_commits"
    echo "2 $stack anything:ops=1200,threads=8,size=256k --page-cache 256KiB $small_log"
    echo "2 $stack anything:ops=1200,size=256k,room=64k --size 64MiB $small_log"
  done
  for stack in bytefs-dual@byte pmfs@byte nova@byte ext4@byte f2fs@byte; do
    if ! has "$stack"; then continue; fi
    echo "4 $stack anything:ops=1200"
    echo "4 $stack anything:ops=1200 $small_cache"
    echo "2 $stack anything:ops=1200,size=256k,room=64k --size 64MiB $small_cache"
  done
}

# Programs that force their writes all the time, without time between their calls.
recordings() {
  local one stack share rest
  local all=("$repository/flashloom/traces/rocksdb.flt:ops=20000,think=no")
  if [ -n "${RECORDINGS:-}" ]; then
    for one in "$RECORDINGS"/*.flt; do all+=("$one:think=no"); done
  fi
  for one in "${all[@]}"; do
    for stack in ext4@block ext4+journal@fdp ext4+discard@block; do
      echo "2 $stack $one"
    done
    for stack in f2fs@block f2fs@zns persimmon@zns btrfs@block hyfim@ocssd; do
      if has "$stack"; then echo "2 $stack $one"; fi
    done
    while read -r share stack rest; do
      echo "$((2 * share)) $stack $one $rest"
    done < <(drives)
  done
}

stacks_known=$("$flashloom" stacks)
total=0
while read -r share _; do total=$((total + share)); done < <(cases | grep -E -- "${ONLY:-.}")
[ "$total" -gt 0 ] || stop "no case matches ${ONLY:-.}"

list=$(mktemp)
met=$(mktemp)
met_hyfim=$(mktemp)
trap 'rm -f "$list" "$met" "$met_hyfim"' EXIT
cases | grep -E -- "${ONLY:-.}" >"$list"

printf '%8s %8s %8s %6s %7s  %s\n' cuts recovery outside lost corrupt case
sums=(0 0 0 0 0)
bytefs=(0 0)
hyfim=(0 0)
while read -r share stack workload rest; do
  # A quarter of a case's cuts use each of four seeds.
  points=$(((cuts * share / total + 3) / 4))
  # Options contain no spaces.
  # shellcheck disable=SC2086
  document=$("$flashloom" crash "$stack" --workload "$workload" $rest \
    --points "$points" --seed "$seed" --seeds 4 --outside 32 --json) || [ $? = 1 ] ||
    stop "crash $stack --workload $workload $rest could not run"
  read -ra found < <(jq -r '"\(.points) \(.recoveries_cut) \(.outside) \(.lost) \(.corrupt)"' <<<"$document")
  printf '%8d %8d %8d %6d %7d  %s\n' "${found[@]}" "$stack $workload $rest"
  jq -r '.failures[:3][] | "  \(.fault): \(.what)\n    \(.repeat)"' <<<"$document"
  for at in "${!sums[@]}"; do sums[at]=$((sums[at] + found[at])); done
  if [[ $stack = bytefs* ]]; then
    jq -c '.met' <<<"$document" >>"$met"
    bytefs=($((bytefs[0] + found[0])) $((bytefs[1] + found[2])))
  elif [[ $stack = hyfim* ]]; then
    jq -c '.met' <<<"$document" >>"$met_hyfim"
    hyfim=($((hyfim[0] + found[0])) $((hyfim[1] + found[2])))
  fi
done <"$list"

printf '%8d %8d %8d %6d %7d  %s\n' "${sums[@]}" "in all"
printf '%8d %8s %8d %6s %7s  %s\n' "${bytefs[0]}" "" "${bytefs[1]}" "" "" "of ByteFS"

# covered FILE CUTS STATE...: prints the number of cuts that met each state, and notes missing ones.
missing=0
covered() {
  local file=$1 of=$2 what times
  shift 2
  for what in "$@"; do
    times=$(jq -s --arg what "$what" 'map(.[$what] // 0) | add' "$file")
    printf '%8d cuts with %s\n' "$times" "$what"
    if [ "$times" = 0 ] && [ "$of" -ge 10000 ]; then missing=1; fi
  done
}

if [ "${bytefs[0]}" -gt 0 ]; then
  covered "$met" "${bytefs[0]}" "stores on their way" "lines of open transactions" \
    "commits in the log" "a cleaning under way" "a store that waits for a full log" \
    "a commit that waits for a full log" "a recovery of the log under way"
fi
if [ "${hyfim[0]}" -gt 0 ]; then
  printf '%8d %8s %8d %6s %7s  %s\n' "${hyfim[0]}" "" "${hyfim[1]}" "" "" "of HyFiM"
  covered "$met_hyfim" "${hyfim[0]}" "stores to persistent memory" \
    "a record of a journal being written" "a committed record" "a record to be redone" \
    "entries of the host's mapping on their way to memory" \
    "a line of the host's mapping being cleaned" \
    "cleaning of a line with a sector that a journal names" "a mapping being recovered" \
    "copies for lack of spare sectors" "a publication that waits for a full journal"
fi
[ "$((sums[3] + sums[4] + missing))" = 0 ]
