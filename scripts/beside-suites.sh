#!/usr/bin/env bash
# Mounts a file system of Flashloom on an emulated drive and runs third-party suites on it:
# pjdfstest (POSIX semantics), fsx (contents of a file), fio (every way to read and write), xfstests
# (regressions of Linux' file systems) and e2fsck (the format).
#
#   scripts/beside-suites.sh [PART...]
#
# A PART is pjdfstest, fsx, fio, drive (fio on the served drive and on a loop device over it) or
# xfstests; by default all run. docs/suites.md has the results, and lists the tests that do not pass
# with the reason; a failing test that is not listed there makes the exit status 1.
#
# SUITES_KIND selects another file system than ext4: f2fs, btrfs, btrfs-nocow, persimmon on a zoned
# drive, hyfim on an open-channel one, bytefs or nova on a byte-addressable one; SUITES_PRESET
# another drive than its default, such as `zns` for f2fs or `ocssd` for ext4. FLASHLOOM selects
# another flashloom than target/release's. PJDFSTEST and XFSTESTS name the directories in which
# these two suites were built (fsx is taken from the latter); without PJDFSTEST, the `pjdfstest` of
# crates.io is run. A missing suite is skipped and named. SUITES_OPS, SUITES_FIO_SIZE, SUITES_LIMIT
# (seconds a test), SUITES_TESTS (numbers), SUITES_LOUD and SUITES_KEEP (a directory for the output
# of xfstests) change the run. Needs root, FUSE, e2fsprogs; fio, xfsprogs and the users that
# xfstests expects for those parts. For xfstests it puts mount.fuse.flashloom into /sbin, unless one
# is there. That and all mounts are removed at the end, also after a failure.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
kind=${SUITES_KIND:-ext4}
helper=/sbin/mount.fuse.flashloom
loops=

# shellcheck source=suites/common.sh
. "$repository/scripts/suites/common.sh"
# shellcheck source=suites/fio.sh
. "$repository/scripts/suites/fio.sh"
# shellcheck source=suites/xfstests.sh
. "$repository/scripts/suites/xfstests.sh"

built
root "the suites, which act as several users,"
need e2fsck mkfs.ext4 timeout unshare
[ "$kind" != f2fs ] || need fsck.f2fs
case $kind in btrfs* | hyfim) need btrfs ;; esac

alone "$@"

work=$(mktemp -d)
chmod 755 "$work"
cp "$flashloom" "$work/flashloom"
flashloom=$work/flashloom

clean() {
  for loop in $loops; do losetup -d "$loop" 2>/dev/null || true; done
  for dir in "$work"/*/; do umount -l "$dir" 2>/dev/null || true; done
  [ ! -e "$work/helper" ] || rm -f "$helper"
  rm -rf "$work"
}
trap clean EXIT

# pjdfstest; where it is ext4, on one that mkfs.ext4 made.
judge_with_pjdfstest() {
  new_drive p 256MiB
  if [ "$kind" = ext4 ]; then
    truncate -s 256M "$work/p.img"
    mkfs.ext4 -q -b 4096 "$work/p.img"
    "$flashloom" drive import "$work/p.flash" "$work/p.img" >/dev/null
  fi
  mounted p
  mkdir "$work/p/pjd"
  chmod 755 "$work/p/pjd"
  if [ -n "${PJDFSTEST:-}" ]; then
    (cd "$work/p/pjd" && prove -r "$PJDFSTEST/tests") >"$work/pjd.log" 2>&1 ||
      only_links || { grep -i fail "$work/pjd.log" >&2; stop "pjdfstest is not content"; }
  elif command -v pjdfstest >/dev/null; then
    pjdfstest_of_crates
  else
    echo "pjdfstest: skipped, it is not there"
    return
  fi
  unmounted p
  sound p
  echo "pjdfstest: $(grep -E '^ *(Files|Result|Summary)' "$work/pjd.log" | tr '\n' ' ')"
}

# Whether all failed checks are link counts of directories, which Btrfs always reports as one:
# pjdfstest allows that, but does not recognise Btrfs behind FUSE.
only_links() {
  case $kind in btrfs* | hyfim) ;; *) return 1 ;; esac
  [ "$(grep -c 'Failed: [1-9]' "$work/pjd.log")" = 1 ] &&
    grep -A 1 'rename/24\.t .*Failed: 4)' "$work/pjd.log" | grep -q 'Failed tests:  4-5, 8-9'
}

pjdfstest_of_crates() {
  # Times of files advance in steps of 4 ms.
  cat >"$work/pjd.toml" <<'TOML'
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
stat_st_birthtime = {}

[settings]
naptime = 0.05
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["games", "games"]]
TOML
  timeout 600 pjdfstest -c "$work/pjd.toml" -p "$work/p/pjd" >"$work/pjd.log" 2>&1 ||
    only_links_of_crates || { grep -w FAILED "$work/pjd.log" >&2; stop "pjdfstest is not content"; }
}

# As above for the suite of crates.io, where these checks are one test.
only_links_of_crates() {
  case $kind in btrfs* | hyfim) ;; *) return 1 ;; esac
  [ "$(grep -w FAILED "$work/pjd.log" | awk '{print $1}')" = rename::updates_link_parent ]
}

# fsx, with mapped reads and writes, buffered and direct, plain and asynchronous.
judge_with_fsx() {
  local fsx=${XFSTESTS:-}/ltp/fsx ops=${SUITES_OPS:-1000000}
  if [ ! -x "$fsx" ]; then
    echo "fsx: skipped, XFSTESTS does not have it"
    return
  fi
  new_drive x 1GiB
  mounted x
  run_fsx "$fsx" "$ops" buffered -l 1048576
  run_fsx "$fsx" "$((ops / 10))" direct -Z -r 512 -w 512 -t 512 -l 1048576
  run_fsx "$fsx" "$((ops / 10))" libaio -A -l 1048576
  run_fsx "$fsx" "$((ops / 10))" io_uring -U -l 1048576
  unmounted x
  sound x
}

run_fsx() {
  local fsx=$1 ops=$2 name=$3
  shift 3
  mkdir -p "$work/fsx"
  "$fsx" -q -N "$ops" -S 7 -P "$work/fsx" "$@" "$work/x/$name" >"$work/fsx.log" 2>&1 ||
    stop "fsx $name: $(tail -3 "$work/fsx.log")"
  echo "fsx $name: $ops operations right"
}

judge_all_of_xfstests() {
  if [ ! -x "${XFSTESTS:-}/check" ]; then
    echo "xfstests: skipped, XFSTESTS does not have them"
    return
  fi
  if [ ! -e "$helper" ]; then
    sed "s#:-flashloom#:-$flashloom#" "$repository/scripts/suites/mount.fuse.flashloom" >"$helper"
    chmod 755 "$helper"
    touch "$work/helper"
  fi
  export FLASHLOOM=$flashloom SUITES_KIND=$kind
  judge_with_xfstests
  sound t
  sound s
  report_xfstests
}

[ "$#" -gt 0 ] || set -- pjdfstest fsx fio drive xfstests
for part in "$@"; do
  case $part in
    pjdfstest) judge_with_pjdfstest ;;
    fsx) judge_with_fsx ;;
    fio) judge_mount_with_fio ;;
    drive) judge_drive_with_fio ;;
    xfstests) judge_all_of_xfstests ;;
    *) stop "$part: expected pjdfstest, fsx, fio, drive or xfstests" ;;
  esac
done
