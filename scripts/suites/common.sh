# What the suites share: a drive with a file system of Flashloom, mounted, and
# judged by others afterwards. Is read by `beside-suites.sh` and by its parts, which
# set `flashloom` and `work` first.

stop() {
  echo "beside-suites: $*" >&2
  exit 1
}

need() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || stop "$tool is not installed"
  done
}

# new_drive NAME SIZE: a drive with an empty ext4 of Flashloom.
new_drive() {
  "$flashloom" drive create "$work/$1.flash" --size "$2" --force >/dev/null
  "$flashloom" mkfs ext4 "$work/$1.flash" >/dev/null
}

# mounted NAME: mounts its file system on the directory of that name.
mounted() {
  mkdir -p "$work/$1"
  timeout 60 "$flashloom" mount ext4 "$work/$1.flash" "$work/$1" --background
}

# unmounted NAME: unmounts it, and waits until the drive is saved.
unmounted() {
  umount "$work/$1"
  for _ in $(seq 300); do
    pgrep -f "mount ext4 $work/$1.flash " >/dev/null || return 0
    sleep 1
  done
  stop "$1.flash is not saved after five minutes"
}

# sound NAME: the file system on the drive is sound to e2fsck and to Flashloom.
sound() {
  "$flashloom" fsck ext4 "$work/$1.flash" >"$work/$1.fsck" || stop "$(cat "$work/$1.fsck")"
  "$flashloom" drive export "$work/$1.flash" "$work/$1.img" >/dev/null
  e2fsck -fn "$work/$1.img" >"$work/$1.e2fsck" 2>&1 || stop "$(cat "$work/$1.e2fsck")"
  rm "$work/$1.img"
}
