#!/usr/bin/env bash
# Lets a stock Linux kernel in a virtual machine use drives that flashloom serves by NVMe/TCP, and
# reports the results of the checks.
#
#   GUEST=PROGRAM scripts/kernel-over-tcp.sh [block|zns|fdp|secrets|placed]...
#
# Without an argument all five parts run. `block`: discovery, connection and the commands of
# nvme-cli; a verified load with and without digests; a control that must fail; ext4, XFS, Btrfs and
# F2FS (make, mount, copy, trim, mount again, compare); the loss of the connection under load, by a
# reset of the controller and by a restart of the server; a host that is not allowed; the data after
# another restart. `zns`: reports and states of zones, a verified load, zonefs, Btrfs in zoned mode.
# `fdp`: the reports about placement handles, and the arrival of a lifetime hint as a handle.
# `secrets`: hosts that authenticate with secrets of nvme-cli, the drive that authenticates to one
# of them, a verified load over a connection that is lost and authenticated again, also at queues in
# use; controls: no secret, the secret of another host, an unregistered secret, a drive with another
# secret than the host expects. `placed`: db_bench under `flashloom shim` over Linux' own zonefs;
# the program, the daemon of the zones and the server of the drive are killed. Then RocksDB's check
# of its checksums must find no error, and forced data must be present.
#
# GUEST names a program that boots a Linux of 6.16 or later (for the hints; 6.12 for the
# rest) with nvme-cli, fio, e2fsprogs, btrfs-progs and zonefs-tools, and runs a script in
# it as root:
#
#   GUEST -n -t SECONDS -m MIB -o DIR -M MODULE,… [-k WORDS] SCRIPT FILE…
#
# -n: it has a network in which 10.0.2.2 is this machine. -m: memory in MiB. -o: DIR of this machine
# is /out there. -M: modules to load first. -k: additional words of the kernel's command line. FILEs
# are in /job. Its exit code is that of the script. Without such a program nothing is checked, and
# the script reports that.
#
# FLASHLOOM selects another flashloom than target/release's; PORT another port than 44200; SEED
# other moments of kills. `placed` needs db_bench on this machine, and 2 GiB for the guest. Takes
# about four minutes if the guest has a processor of its own.
set -euo pipefail

# shellcheck source=kernel-over.sh
. "$(dirname "$0")/kernel-over.sh"

all="block zns fdp secrets placed"
port=${PORT:-44200}
mib=1024 patience=600 files=() told=()
RANDOM=${SEED:-1}
head='D=/dev/nvme0n1
NQN=nqn.2026-01.org.example:drive
join() {
  nvme connect -t tcp -a 10.0.2.2 -s "$(cat /job/port)" -n $NQN -i 2 "$@" >/out/connect 2>&1 || return 1
  for i in 1 2 3 4 5 6 7 8 9 10; do [ -b $D ] && return 0; sleep 0.3; done
  stop "no block device"
}
refuses() { "$@" >/out/said 2>&1 && stop "$* works"; return 0; }'

serve() {
  served NVMe/TCP --nvme-tcp "127.0.0.1:$port" --nqn nqn.2026-01.org.example:drive "$@"
}

machine() {
  echo "$port" >"$work/port"
  "$GUEST" -n -t "$patience" -m "$mib" -o "$work/out" -M "$1" "${told[@]}" "$work/script" "$work/port" "${files[@]}"
}

block() {
  create block 512MiB
  serve
  guest "block: what nvme-cli asks, fio, four file systems, a lost connection" nvme-tcp,ext4,xfs,btrfs,f2fs <<'SCRIPT'
says "subnqn: *$NQN" nvme discover -t tcp -a 10.0.2.2 -s "$(cat /job/port)"
join || stop "no connection"
says Flashloom nvme list
says "nn *: 1" nvme id-ctrl /dev/nvme0
says "lbads:12.*in use" nvme id-ns $D
says "available_spare.*100" nvme smart-log /dev/nvme0
says "Copy" nvme effects-log /dev/nvme0
says "LID 0x9 " nvme supported-log-pages /dev/nvme0
says "nguid" nvme ns-descs $D
says "Enabled" nvme get-feature /dev/nvme0 -f 6 -H
says "rdy|csts" nvme show-regs /dev/nvme0
says "error_count" nvme error-log /dev/nvme0 -e 2
says "Success" nvme write-zeroes $D -s 0 -c 7
says "Success" nvme verify $D -s 0 -c 7
head -c 8192 /dev/urandom >/tmp/x
says "Success" nvme write $D -s 100 -c 1 -z 8192 -d /tmp/x
says "success" nvme copy $D -s 100 -b 1 -d 200
says "Success" nvme compare $D -s 200 -c 1 -z 8192 -d /tmp/x
refuses nvme compare $D -s 201 -c 1 -z 8192 -d /tmp/x
verify load --rw=randwrite --bsrange=4k-256k --size=32m || stop "$(tail -1 /out/fio)"
# The control: one wrong byte must be detected.
verify keep --rw=write --bs=64k --size=2m --do_verify=0 || stop "$(tail -1 /out/fio)"
head -c 1 /dev/urandom | dd of=$D bs=1 seek=1000001 conv=notrunc status=none; sync
printf '\001' | dd of=$D bs=1 seek=1000002 conv=notrunc status=none; sync
if verify keep --rw=write --bs=64k --size=2m --verify_only=1; then stop "damage is not seen"; fi
# The connection is lost and established anew during a verified load.
(for i in 1 2 3; do sleep 2; nvme reset /dev/nvme0 || exit 1; done) &
resets=$!
verify lost --rw=randwrite --bs=16k --offset=128m --size=24m --rate_iops=150 || stop "over resets: $(tail -1 /out/fio)"
wait $resets || stop "a reset failed"
round xfs mkfs.xfs -q -f $D
round btrfs mkfs.btrfs -q -f $D
round f2fs mkfs.f2fs -q -f $D
nvme disconnect -n $NQN >/dev/null
join -g -G || stop "no connection with digests"
verify digests --rw=randwrite --bsrange=4k-256k --offset=128m --size=8m || stop "with digests: $(tail -1 /out/fio)"
nvme disconnect -n $NQN >/dev/null
SCRIPT
  rm -f "$work/out/go"
  guest "block: a restart of the server under load" nvme-tcp,ext4 <<'SCRIPT' &
join --reconnect-delay=1 --ctrl-loss-tmo=200 || stop "no connection"
(sleep 2; touch /out/go) &
verify restart --rw=randwrite --bs=16k --offset=64m --size=24m --rate_iops=150 || stop "over a restart: $(tail -1 /out/fio)"
verify restart --rw=randwrite --bs=16k --offset=64m --size=24m --verify_only=1 || stop "after a restart: $(tail -1 /out/fio)"
grep -q live /sys/class/nvme/nvme0/state || stop "not connected"
round ext4 mkfs.ext4 -q -F $D
nvme disconnect -n $NQN >/dev/null
SCRIPT
  local machine=$!
  until [ -e "$work/out/go" ] || ! kill -0 "$machine" 2>/dev/null; do sleep 0.2; done
  die
  serve
  wait "$machine" || exit 1
  off
  serve --allow nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
  guest "block: after a restart, for a host that is allowed" nvme-tcp,ext4 <<'SCRIPT'
refuses nvme connect -t tcp -a 10.0.2.2 -s "$(cat /job/port)" -n $NQN
refuses nvme discover -t tcp -a 10.0.2.2 -s "$(cat /job/port)"
join -q nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 || stop "not let in"
mkdir -p /mnt/a; mount $D /mnt/a || stop "mount"
sums /mnt/a | cmp -s - /out/before || stop "other contents after a restart"
umount /mnt/a
SCRIPT
  off
  "$flashloom" fsck ext4 "$work/d.flash" >/dev/null || stop "flashloom fsck finds mistakes of Linux"
}

zns() {
  create zns
  serve
  guest "zns: zones, fio, zonefs, Btrfs" nvme-tcp,zonefs,btrfs <<'SCRIPT'
join || stop "no connection"
grep -q host-managed /sys/block/nvme0n1/queue/zoned || stop "not zoned"
says "lbafe.*zsze:0x[1-9].*in use" nvme zns id-ns $D
says "SLBA: 0 .*State: 0x10 Type: 0x2" nvme zns report-zones $D -d 4
says "SEQ_WRITE_REQUIRED" blkzone report $D
for step in open-zone:0x30 close-zone:0x40 finish-zone:0xe0 reset-zone:0x10; do
  action=${step%:*}
  nvme zns $action $D -s 0 >/out/said 2>&1
  says "SLBA: 0 .*State: ${step#*:}" nvme zns report-zones $D -d 1
done
head -c 8192 /dev/urandom >/tmp/x
says "LBA 0" nvme zns zone-append $D -s 0 -z 8192 -d /tmp/x
says "WP: 0x2 " nvme zns report-zones $D -d 1
refuses dd if=/dev/zero of=$D bs=4096 count=1 seek=5 oflag=direct
blkzone reset $D
verify zones --zonemode=zbd --rw=write --bs=64k --size=24m --max_open_zones=4 || stop "$(tail -1 /out/fio)"
blkzone reset $D
mkzonefs $D >/dev/null 2>&1 || stop "mkzonefs"
mount -t zonefs $D /mnt || stop "zonefs"
dd if=/tmp/x of=/mnt/seq/0 bs=8k oflag=direct status=none || stop "a file of zonefs"
cmp /mnt/seq/0 /tmp/x || stop "other contents in zonefs"
umount /mnt
blkzone reset $D
if mkfs.btrfs -q -f -O zoned -d single -m single $D >/out/said 2>&1; then
  mount $D /mnt || stop "Btrfs"
  cp -r /bin /mnt/; sync
  sums /mnt >/out/before
  umount /mnt; mount $D /mnt
  sums /mnt | cmp -s - /out/before || stop "other contents in Btrfs"
  umount /mnt
  says "no error found" btrfs check $D
else
  echo "Btrfs: skipped, $(tail -1 /out/said)"
fi
SCRIPT
  off
}

fdp() {
  create fdp
  serve
  guest "fdp: what is told, and hints" nvme-tcp <<'SCRIPT'
join || stop "no connection"
says "Number of Reclaim Unit Handles: 8" nvme fdp configs /dev/nvme0 -e 1
says "Unit Handle 7 Attributes" nvme fdp usage /dev/nvme0 -e 1
says "Placement Identifier 7" nvme fdp status $D
says "FDPE.*: Yes" nvme fdp feature /dev/nvme0 -e 1
says "HBMW.*: 0" nvme fdp stats /dev/nvme0 -e 1
streams=/sys/block/nvme0n1/queue/max_write_streams
if [ -e $streams ]; then
  [ "$(cat $streams)" = 8 ] || stop "$(cat $streams) streams"
  # Short-lived data are stream 2, which is the second handle. Of the updated handles, only one that
  # was written to leaves a unit that is not full.
  fio --name=hint --filename=$D --direct=1 --ioengine=psync --rw=write --bs=64k --size=256k \
    --write_hint=short --minimal >/out/fio 2>&1 || stop "$(tail -1 /out/fio)"
  for handle in 1 5; do says Success nvme fdp update $D -p $handle; done
  says "PID\): 0x1$" nvme fdp events /dev/nvme0 -e 1 -E
  grep -q "PID): 0x5$" /out/said && stop "a handle that nobody named was written to"
else
  echo "hints: skipped, this kernel sends none"
fi

exit 0
SCRIPT
  off
}

# Hosts with secrets transformed by each hash function, and one with a plain secret.
hosts='host() { echo "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-00000000000$1"; }
lengths="32 32 48 64"'

secrets() {
  create block
  local usual=$head
  head="$usual
$hosts"
  guest "secrets: nvme-cli makes them" nvme-tcp <<'SCRIPT'
for name in host-0 host-1 host-2 host-3 drive-1 other-1; do
  kind=${name#*-}
  nvme gen-dhchap-key -m $kind -l "$(echo $lengths | cut -d' ' -f$((kind + 1)))" -n "$(host $kind)" \
    >/out/$name 2>/out/said || stop "$(tail -1 /out/said)"
  grep -q "^DHHC-1:0$kind:.*:$" /out/$name || stop "no secret: $(cat /out/$name)"
done
SCRIPT
  local kind
  eval "$hosts"
  for kind in 0 1 2 3; do
    echo "$(host $kind) $(cat "$work/out/host-$kind")$([ $kind = 1 ] && echo " $(cat "$work/out/drive-1")")"
  done >"$work/secrets"
  serve --secrets "$work/secrets"
  guest "secrets: who proves himself is let in, and nobody else" nvme-tcp <<'SCRIPT'
own() { cat /out/host-$1; }
# enter HOST SECRET OPTION...
enter() {
  local who=$1 secret=$2; shift 2
  join -q "$(host $who)" --dhchap-secret "$secret" "$@"
}
leave() { nvme disconnect -n $NQN >/dev/null; }
out() { # out WHAT COMMAND...
  local what=$1; shift
  dmesg -c >/dev/null
  "$@" && stop "let in: $what"
  [ -b $D ] && stop "a drive is there: $what"
  dmesg >/out/heard
}
fails() { # fails WHAT COMMAND...: for what the kernel calls authentication
  out "$@"
  grep -qiE "authentication|DH-HMAC-CHAP|auth" /out/heard || stop "$1: no word of authentication: $(tail -1 /out/heard)"
}
for kind in 0 1 2 3; do
  dmesg -c >/dev/null
  enter $kind "$(own $kind)" || stop "host $kind: $(cat /out/connect; dmesg | tail -3)"
  dmesg | grep -qi "authenticated" || stop "host $kind is let in without a proof"
  says "lbads:12.*in use" nvme id-ns $D
  leave
done
enter 1 "$(own 1)" --dhchap-ctrl-secret "$(cat /out/drive-1)" || stop "both: $(cat /out/connect; dmesg | tail -3)"
verify load --rw=randwrite --bsrange=4k-256k --size=8m || stop "$(tail -1 /out/fio)"
(for i in 1 2 3; do sleep 2; nvme reset /dev/nvme0 || exit 1; done) &
resets=$!
verify lost --rw=randwrite --bs=16k --offset=128m --size=16m --rate_iops=120 || stop "over resets: $(tail -1 /out/fio)"
wait $resets || stop "a reset failed"
# The kernel lets its host authenticate again, at queues in use.
dmesg -c >/dev/null
own 1 >/sys/class/nvme/nvme0/dhchap_secret || stop "the secret is not taken"
sleep 1
dmesg | grep -qiE "fail|error" && stop "proving again: $(dmesg | tail -2)"
dmesg | grep -q "qid 0: authenticated" || stop "it has not proved itself again: $(dmesg | tail -2)"
verify again --rw=randwrite --bs=16k --offset=64m --size=4m || stop "after proving again: $(tail -1 /out/fio)"
leave
fails "the secret of another host" enter 1 "$(own 0)"
fails "one that nobody has been told" enter 1 "$(cat /out/other-1)"
fails "a drive with another secret" enter 1 "$(own 1)" --dhchap-ctrl-secret "$(cat /out/other-1)"
fails "a drive that has none" enter 2 "$(own 2)" --dhchap-ctrl-secret "$(cat /out/drive-1)"
out "no secret" join -q "$(host 1)"
out "a host that is not named" join -q "$(host 9)" --dhchap-secret "$(own 1)"
refuses nvme discover -t tcp -a 10.0.2.2 -s "$(cat /job/port)" -q "$(host 1)"
# The right secret is still accepted.
enter 3 "$(own 3)" || stop "host 3 afterwards: $(cat /out/connect)"
leave
SCRIPT
  off
  head=$usual
}

# A tree of db_bench and flashloom with all libraries that they load, independent of the guest.
bundle() {
  local program library
  mkdir -p "$work/tree"/{bin,proc,sys,dev,tmp,zones,data}
  cp "$(command -v db_bench)" "$work/tree/bin/"
  cp "$flashloom" "$work/tree/bin/flashloom"
  for program in "$work"/tree/bin/*; do
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
      cp -L --parents "$library" "$work/tree/"
    done
  done
  tar -C "$work/tree" -cf "$work/programs.tar" .
}

# Start of each script of `placed`: an empty zonefs. Files that are not placed are in memory.
begun='T=/tmp/tree
mkdir -p $T
tar -xf /job/programs.tar -C $T || stop "programs"
join --reconnect-delay=1 --ctrl-loss-tmo=200 || stop "no connection"
blkzone reset $D
mkzonefs $D >/out/said 2>&1 || stop "mkzonefs: $(tail -1 /out/said)"
mount -t zonefs $D $T/zones || stop "zonefs"
for dir in proc sys dev; do mount -o rbind /$dir $T/$dir; done
under() { chroot $T /bin/flashloom shim --rules rocksdb --zones /zones -- /bin/db_bench --db=/data/db "$@"; }
small="--num=10000 --value_size=400 --write_buffer_size=262144 --target_file_size_base=262144
  --max_bytes_for_level_base=1048576 --compression_type=none --use_existing_db=1"
# Waits until the daemon has ended, after its last user.
released() { while pgrep -f "shim serve" >/dev/null; do sleep 0.1; done; }
sound() { # sound WHAT
  under $small --benchmarks=readseq,verifychecksum --verify_checksum=true >/out/said 2>&1 || stop "$1: $(tail -3 /out/said)"
  grep -qi corrupt /out/said && stop "$1: $(grep -i corrupt /out/said)"
  released
}
# kill_after SECONDS VICTIM: kills a victim that long after the program in the background has
# started.
kill_after() {
  until pidof db_bench >/dev/null || ! kill -0 $!; do sleep 0.1; done
  sleep $1
  case $2 in
    program) kill -9 $(pidof db_bench) ;;
    daemon) kill -9 $(pgrep -f "shim serve"); sleep 1; kill -9 $(pidof db_bench) ;;
  esac || stop "there was no $2 to kill: $(tail -1 /out/ran)"
  wait
  released
}'

# moments COUNT: random times of 1 to 4 seconds.
moments() {
  local _
  for _ in $(seq "$1"); do awk -v r=$RANDOM 'BEGIN { printf "%.2f ", 1 + 3 * r / 32768 }'; done
}

placed() {
  need db_bench ldd
  bundle
  files=("$work/programs.tar")
  mib=2048 patience=1800
  create zns
  serve
  local usual=$head
  head="$usual
$begun
M='$(moments 16)'"
  guest "placed: db_bench over zonefs, the program and the daemon killed" nvme-tcp,zonefs <<'SCRIPT'
under $small --use_existing_db=0 --benchmarks=fillrandom,overwrite,readwhilewriting,readrandom >/out/said 2>&1 ||
  stop "$(tail -3 /out/said)"
released
stat -c %s $T/zones/seq/* | awk '{ all += $1 } END { exit all < 4000000 }' || stop "nothing is in zones"
sound "no kill"
set -- $M
for bench in fillrandom overwrite readwhilewriting readrandom; do
  for victim in program daemon; do
    # fillrandom starts with an empty store; the other workloads use the existing one.
    case $bench in fillrandom) had=0 ;; *) had=1 ;; esac
    under $small --use_existing_db=$had --duration=60 --benchmarks=$bench >/out/ran 2>&1 &
    kill_after $1 $victim
    shift
    sound "$victim killed in $bench"
  done
done
for victim in program daemon; do
  rm -rf $T/data/db
  under --benchmarks=fillseq --sync=1 --num=10000000 --value_size=200 >/out/ran 2>&1 &
  until grep -q finished /out/ran || ! kill -0 $!; do sleep 0.1; done
  kill_after $1 $victim
  shift
  least=$(tr '\r' '\n' </out/ran | grep -o 'finished [0-9]* ops' | tail -1 | grep -o '[0-9]*')
  # db_bench counts a write before it checks for failure.
  [ $victim = program ] || least=$((least - 1))
  under --use_existing_db=1 --num=10000000 --benchmarks=readseq --verify_checksum=true >/out/said 2>&1 ||
    stop "forced: $(tail -3 /out/said)"
  count=$(grep -o '[0-9]* operations' /out/said | head -1 | grep -o '[0-9]*')
  [ "$count" -ge "$least" ] || stop "records are gone: $least answered, $count found"
  echo "$victim killed: $least answered, $count found"
  released
done
umount $T/zones || stop "not unmounted"
SCRIPT
  grep killed: "$work/console"
  rm -f "$work/out/go"
  # Linux requeues a zoned write that a lost path returns with its mark of being plugged, and does
  # not count it a second time (7.3.4): a freeze of the queue then hangs.
  told=(-k nvme_core.multipath=N)
  guest "placed: the server of the drive killed under db_bench" nvme-tcp,zonefs <<'SCRIPT' &
(sleep 6; touch /out/go) &
under $small --use_existing_db=0 --num=20000 --benchmarks=fillrandom,overwrite >/out/said 2>&1 || stop "$(tail -3 /out/said)"
[ -e /out/go ] || stop "it was done before the kill"
released
sound "server killed"
umount $T/zones || stop "not unmounted"
SCRIPT
  local machine=$!
  until [ -e "$work/out/go" ] || ! kill -0 "$machine" 2>/dev/null; do sleep 0.2; done
  die
  serve
  wait "$machine" || exit 1
  off
  head=$usual told=()
}

parts "$@"
