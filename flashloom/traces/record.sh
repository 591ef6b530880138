# What the recordings of stores share, who read it with their parameters set: OUT, PLACE,
# FLASHLOOM and MEMORY. The store runs in a file system in memory at PLACE, so that neither
# names nor waits of this machine's disk get into the recording.

die() { echo "$(basename "$0" .sh): $*" >&2; exit 1; }
say() { echo "[$(date +%T)] $*" >&2; }

[ "$(id -u)" = 0 ] || die "must run as root"
[ ! -e "$PLACE" ] || [ -z "$(ls -A "$PLACE")" ] || die "$PLACE is not empty"

WORK=$(mktemp -d "${TMPDIR:-/tmp}/$(basename "$0" .sh).XXXXXX")
MOUNTED=''
cleanup() {
  set +e
  cd /
  [ -n "$MOUNTED" ] && umount "$PLACE"
  rm -rf "$WORK"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

occupy() {
  mkdir -p "$PLACE"
  mount -t tmpfs -o "size=$MEMORY,mode=755" "$(basename "$0" .sh)" "$PLACE"
  MOUNTED=yes
}

leave() {
  umount "$PLACE"
  MOUNTED=''
}

# record COMMAND...: records it; as the user AS, if that is set.
record() {
  local command=("$FLASHLOOM" record --under "$(dirname "$PLACE")" -o "$WORK/raw.flt" -- "$@")
  if [ -n "${AS:-}" ]; then
    command=(setpriv --reuid "$AS" --regid "$AS" --init-groups "${command[@]}")
  fi
  "${command[@]}" >"$WORK/said" 2>&1 || { tail -n 20 "$WORK/said" >&2; die "$1 failed"; }
}

# told EXPRESSION: what the command and the recorder said that is like it.
told() { tr '\r' '\n' <"$WORK/said" | grep -E "$1" >&2; }

# publish FILE: compresses the recording, and puts it there if nothing was missed and no
# name of this machine is in it.
publish() {
  # The magic, then one frame.
  { head -c 8 "$WORK/raw.flt"; tail -c +9 "$WORK/raw.flt" | zstd -dc | zstd -19 -c; } >"$WORK/out.flt"
  "$FLASHLOOM" trace info "$WORK/out.flt" >"$WORK/info"
  ! grep '^not recorded: ' "$WORK/info" || die "something was missed"
  "$FLASHLOOM" trace convert "$WORK/out.flt" "$WORK/text" --to flt-text >/dev/null
  [ -s "$WORK/text" ] || die "the recording has no text"
  ! grep -m 1 -w -F -e "$(uname -n)" -e "$WORK" "$WORK/text" || die "a name of this machine is in it"
  mkdir -p "$(dirname "$1")"
  mv "$WORK/out.flt" "$1"
  chmod 644 "$1"
  say "$(stat -c %s "$1") bytes: $1"
}
