# What the suites share: a drive with a file system of Flashloom, mounted, and
# judged by others afterwards. Is read by `beside-suites.sh` and by its parts, which
# set `flashloom`, `kind` and `work` first.

stop() {
  echo "beside-suites: $*" >&2
  exit 1
}

need() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || stop "$tool is not installed"
  done
}

# new_drive NAME SIZE: a drive with an empty file system of Flashloom.
new_drive() {
  local preset=byte
  [ "$kind" != ext4 ] || preset=block
  "$flashloom" drive create "$work/$1.flash" --preset "$preset" --size "$2" --force >/dev/null
  "$flashloom" mkfs "$kind" "$work/$1.flash" >/dev/null
}

# mounted NAME: mounts its file system on the directory of that name.
mounted() {
  mkdir -p "$work/$1"
  timeout 60 "$flashloom" mount "$kind" "$work/$1.flash" "$work/$1" --background
}

# unmounted NAME: unmounts it, and waits until the drive is saved.
unmounted() {
  umount "$work/$1"
  for _ in $(seq 300); do
    pgrep -f "mount $kind $work/$1.flash " >/dev/null || return 0
    sleep 1
  done
  stop "$1.flash is not saved after five minutes"
}

# sound NAME: the file system on the drive is sound to Flashloom and, if e2fsck knows
# its format, to e2fsck.
sound() {
  "$flashloom" fsck "$kind" "$work/$1.flash" >"$work/$1.fsck" || stop "$(cat "$work/$1.fsck")"
  [ "$kind" != nova ] || return 0
  "$flashloom" drive export "$work/$1.flash" "$work/$1.img" >/dev/null
  e2fsck -fn "$work/$1.img" >"$work/$1.e2fsck" 2>&1 || stop "$(cat "$work/$1.e2fsck")"
  rm "$work/$1.img"
}
