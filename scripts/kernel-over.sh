# Shared parts of `kernel-over-tcp.sh` and `kernel-over-vfio-user.sh`: a served drive, and scripts
# in a guest that check it. These scripts set `all`, the list of their parts, and `head`, the start
# of each script in the guest; and they define `machine MODULES`, which boots GUEST with
# "$work/script".

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

if [ -z "${GUEST:-}" ]; then
  echo "$(basename "$0" .sh): skipped, GUEST names no program that boots a Linux"
  exit 0
fi
built

work=$(mktemp -d)
server=

clean() {
  off
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

create() {
  "$flashloom" drive create "$work/d.flash" --preset "$1" --size "${2:-256MiB}" --force >/dev/null
}

# served WORD OPTION...: serves the drive, and waits until WORD appears in the output.
served() {
  local word=$1
  shift
  "$flashloom" serve "$work/d.flash" "$@" 2>"$work/told" &
  server=$!
  for _ in $(seq 100); do
    grep -q "$word" "$work/told" && return
    kill -0 "$server" 2>/dev/null || stop "$(cat "$work/told")"
    sleep 0.1
  done
  stop "the drive is not served"
}

off() {
  [ -z "$server" ] && return
  kill "$server" 2>/dev/null || true
  wait "$server" || true
  server=
}

# Kills the server: for the drive this is a loss of power, against which it is protected.
die() {
  # Otherwise the shell would report the kill.
  disown "$server"
  kill -9 "$server"
  while kill -0 "$server" 2>/dev/null; do sleep 0.05; done
  server=
}

# boot MODULES: runs the script on standard input in the guest, and returns its exit code.
boot() {
  {
    cat <<'HEAD'
set -u
stop() { echo "GUEST: $*"; exit 1; }
says() { # says TEXT COMMAND...
  local text=$1; shift
  "$@" >/out/said 2>&1 || stop "$*: $(tail -1 /out/said)"
  grep -qE "$text" /out/said || stop "$* does not say $text"
}
verify() { # verify NAME OPTION...
  local name=$1; shift
  fio --name="$name" --filename=$D --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c \
    --verify_fatal=1 --verify_state_save=0 --randseed=7 --minimal "$@" >/out/fio 2>&1
}
sums() { (cd "$1" && find . -type f | sort | xargs md5sum); }
# round NAME MAKE... : makes a file system, fills it, and compares after another mount.
round() {
  local name=$1; shift
  "$@" >/out/said 2>&1 || stop "$name: $(tail -1 /out/said)"
  mkdir -p /mnt/a; mount -t "$name" $D /mnt/a || stop "$name is not mounted"
  cp -r /bin /mnt/a/ || stop "$name: no copy"
  sync; rm -r /mnt/a/bin/b*; says bytes fstrim -v /mnt/a; sums /mnt/a >/out/before
  umount /mnt/a; mount -t "$name" $D /mnt/a || stop "$name is not mounted again"
  sums /mnt/a | cmp -s - /out/before || stop "$name: other contents after mounting again"
  umount /mnt/a
}
HEAD
    echo "$head"
    cat
  } >"$work/script"
  mkdir -p "$work/out"
  machine "$1" >"$work/console" 2>&1
}

# guest NAME MODULES: runs the script in the guest, and stops unless it succeeds.
guest() {
  if boot "$2"; then
    echo "$1: right"
  else
    tail -40 "$work/console" >&2
    stop "$1: failed"
  fi
}

# parts [PART...]: runs these parts, or all.
parts() {
  # shellcheck disable=SC2086
  [ $# -gt 0 ] || set -- $all
  local part
  for part in "$@"; do
    case " $all " in
      *" $part "*) "$part" ;;
      *) stop "expected one of $all, found $part" ;;
    esac
  done
}
