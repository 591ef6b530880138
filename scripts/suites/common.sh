# What the suites share: a drive with a file system of Flashloom, mounted, and
# judged by others afterwards. Is read by `beside-suites.sh`, its parts,
# `beside-databases.sh` and `beside-placed.sh`, which set `kind` and `work` and read
# `../common.sh` first.

# new_drive NAME SIZE: a drive with an empty file system of Flashloom. One of zones is
# not made smaller than a file system of several logs can use.
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
    # What F2FS writes in place needs zones that can be.
    [ "$kind" != f2fs ] || zones=(--conventional 8)
  fi
  "$flashloom" drive create "$work/$1.flash" --preset "$preset" --size "$size" --force \
    "${zones[@]}" >/dev/null
  "$flashloom" mkfs "$kind" "$work/$1.flash" >/dev/null
}

# mounted NAME: mounts its file system on the directory of that name.
mounted() {
  mkdir -p "$work/$1"
  timeout 60 "$flashloom" mount "$kind" "$work/$1.flash" "$work/$1" --background
}

# in_front KIND DRIVE DIR: the same by a process that can be killed, `mounted`.
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

# sound NAME: the file system on the drive is sound to Flashloom and, if there is a
# checker of others for its format and the drive can be written in place, to that.
sound() {
  "$flashloom" fsck "$kind" "$work/$1.flash" >"$work/$1.fsck" || stop "$(cat "$work/$1.fsck")"
  case $kind${SUITES_PRESET:+-$SUITES_PRESET} in
    nova* | persimmon* | *-zns) return ;;
  esac
  "$flashloom" drive export "$work/$1.flash" "$work/$1.img" >/dev/null
  if [ "$kind" = f2fs ]; then
    # Its status is 0 whatever it finds.
    fsck.f2fs -f --dry-run "$work/$1.img" >"$work/$1.judged" 2>&1 || stop "$(cat "$work/$1.judged")"
    ! grep -E '\[Fail\]|\[ASSERT\]|unreachable|Invalid' "$work/$1.judged" ||
      stop "fsck.f2fs finds something"
    # A checker that gives up does not come to its last line.
    grep -q 'other corrupted bugs.*Ok' "$work/$1.judged" || stop "$(tail -3 "$work/$1.judged")"
  elif [ "$kind" = btrfs ] || [ "$kind" = btrfs-nocow ] || [ "$kind" = hyfim ]; then
    btrfs check --check-data-csum "$work/$1.img" >"$work/$1.judged" 2>&1 ||
      stop "$(cat "$work/$1.judged")"
  else
    e2fsck -fn "$work/$1.img" >"$work/$1.judged" 2>&1 || stop "$(cat "$work/$1.judged")"
  fi
  rm "$work/$1.img"
}
