# Shared parts of the suites: a drive with a mounted file system of Flashloom, and third-party
# checks of it afterwards. Sourced by `beside-suites.sh`, its parts, `beside-databases.sh` and
# `beside-placed.sh`, which set `kind` and `work` and source `../common.sh` first.

# new_drive NAME SIZE: creates a drive with an empty file system of Flashloom. A zoned drive is at
# least as large as a file system of several logs needs.
new_drive() {
  local preset=${SUITES_PRESET:-} size=$2 zones=()
  if [ -z "$preset" ]; then
    case $kind in
      ext4 | f2fs | btrfs | btrfs-nocow) preset=block ;;
      hyfim) preset=ocssd ;;
      persimmon) preset=zns ;;
      *) preset=byte ;;
    esac
  fi
  if [ "$preset" = zns ]; then
    [ "$size" != 256MiB ] || size=1GiB
    # F2FS writes some areas in place, which needs conventional zones.
    [ "$kind" != f2fs ] || zones=(--conventional 8)
  fi
  "$flashloom" drive create "$work/$1.flash" --preset "$preset" --size "$size" --force \
    "${zones[@]}" >/dev/null
  "$flashloom" mkfs "$kind" "$work/$1.flash" >/dev/null
}

# mounted NAME: mounts the drive's file system on the directory of that name.
mounted() {
  mkdir -p "$work/$1"
  timeout 60 "$flashloom" mount "$kind" "$work/$1.flash" "$work/$1" --background
}

# in_front KIND DRIVE DIR: mounts it from a process that can be killed, whose number is `mounted`.
in_front() {
  "$flashloom" mount "$1" "$2" "$3" >"$work/mount.log" 2>&1 &
  mounted=$!
  for _ in $(seq 600); do
    if mountpoint -q "$3"; then return; fi
    sleep 0.1
  done
  stop "the drive is not mounted: $(cat "$work/mount.log")"
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

# sound NAME: checks the file system with Flashloom and, if there is a third-party checker of its
# format and the drive can be written in place, with that.
sound() {
  "$flashloom" fsck "$kind" "$work/$1.flash" >"$work/$1.fsck" || stop "$(cat "$work/$1.fsck")"
  case $kind${SUITES_PRESET:+-$SUITES_PRESET} in
    nova* | persimmon* | *-zns) return ;;
  esac
  "$flashloom" drive export "$work/$1.flash" "$work/$1.img" >/dev/null
  if [ "$kind" = f2fs ]; then
    # Its exit status is 0 even for defects.
    fsck.f2fs -f --dry-run "$work/$1.img" >"$work/$1.judged" 2>&1 || stop "$(cat "$work/$1.judged")"
    ! grep -E '\[Fail\]|\[ASSERT\]|unreachable|Invalid' "$work/$1.judged" ||
      stop "fsck.f2fs finds something"
    # A checker that aborts does not print its last line.
    grep -q 'other corrupted bugs.*Ok' "$work/$1.judged" || stop "$(tail -3 "$work/$1.judged")"
  elif [ "$kind" = btrfs ] || [ "$kind" = btrfs-nocow ] || [ "$kind" = hyfim ]; then
    btrfs check --check-data-csum "$work/$1.img" >"$work/$1.judged" 2>&1 ||
      stop "$(cat "$work/$1.judged")"
  else
    e2fsck -fn "$work/$1.img" >"$work/$1.judged" 2>&1 || stop "$(cat "$work/$1.judged")"
  fi
  rm "$work/$1.img"
}
