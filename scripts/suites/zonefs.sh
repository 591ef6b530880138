# Replacements for the system commands of zonefs-tools' tests, based on Flashloom. Appended to their
# `test_lib`, so that each test script runs unchanged on a drive in a file. `beside-zonefs.sh` sets
# FLASHLOOM, ZONEFS_WORK and the limits of the drive.

# Path of the drive file for a test's device name.
drive_of() {
  echo "${1/#\/dev\/nullb/$ZONEFS_WORK/nullb}"
}

mkzonefs() {
  local list=
  while [ $# -gt 1 ]; do
    case $1 in
      -f | -v) ;;
      -h | --help | --version) return 0 ;;
      -o) list=$2 && shift ;;
      *) return 1 ;;
    esac
    shift
  done
  "$FLASHLOOM" mkfs zonefs "$(drive_of "${1:-}")" ${list:+-o "$list"}
}

# mount -t zonefs [-o LIST] DEVICE DIR
mount() {
  local list=
  shift 2
  [ "$1" != -o ] || { list=$2 && shift 2; }
  "$FLASHLOOM" mount zonefs "$(drive_of "$1")" "$2" --background ${list:+-o "$list"}
}

# Unmounts, and waits until the drive is saved to its file.
umount() {
  command umount "$@" || return
  for _ in $(seq 500); do
    ! "$FLASHLOOM" drive info "$ZONEFS_DRIVE" >/dev/null 2>&1 || return 0
    sleep 0.02
  done
  return 1
}

udevadm() { :; }
sudo() { "$@"; }

zone_info() {
  "$FLASHLOOM" drive zones "$1" --json | jq -r ".list[$2].state"
}
zone_is_conventional() { [ "$(zone_info "$1" "$2")" = conventional ]; }
zone_is_full() { [ "$(zone_info "$1" "$2")" = full ]; }

of_zonefs() { jq ".$1" "$zonefs_mntdir/.zones.json"; }
sysfs_max_active_seq_files() { of_zonefs max_active_seq_files; }
sysfs_nr_active_seq_files() { of_zonefs nr_active_seq_files; }
sysfs_max_wro_seq_files() { of_zonefs max_wro_seq_files; }
sysfs_nr_wro_seq_files() { of_zonefs nr_wro_seq_files; }

get_max_open_zones() { echo "$ZONEFS_MAX_OPEN"; }
get_max_active_zones() { echo "$ZONEFS_MAX_ACTIVE"; }
# Largest request that the kernel's FUSE passes on.
get_write_max_bytes() { echo 1048576; }

clear_sb() {
  "$FLASHLOOM" drive create "$1" --preset "$ZONEFS_WORK/zones.toml" --size "$ZONEFS_SIZE" --force
}

create_regular_nullb() {
  "$FLASHLOOM" drive create "$ZONEFS_WORK/nullb0.flash" --size 16MiB --force >&2
  ln -sf nullb0.flash "$ZONEFS_WORK/nullb0"
  echo 0
}
destroy_nullb() { rm -f "$ZONEFS_WORK/nullb$1" "$ZONEFS_WORK/nullb$1.flash"; }
