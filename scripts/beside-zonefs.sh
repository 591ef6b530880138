#!/usr/bin/env bash
# Runs the tests of zonefs-tools, made for Linux' zonefs, on `flashloom mount zonefs`.
#
#   ZONEFS_TOOLS=DIR scripts/beside-zonefs.sh [TEST...]
#
# DIR is a checkout of zonefs-tools. Its scripts run unchanged; the commands that they call on a
# device (mkzonefs, mount, blkzone, reads of /sys) are replaced by scripts/suites/zonefs.sh. A TEST
# is a number such as 0300; by default all run, once with conventional zones and once without.
# docs/suites.md has the results. The exit status is 1 if any test fails. FLASHLOOM selects another
# flashloom than target/release's. Needs root, FUSE, fio, jq and a C compiler.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

tools=${ZONEFS_TOOLS:-}
built
[ -e "$tools/tests/scripts/test_lib" ] || stop "ZONEFS_TOOLS names no checkout of zonefs-tools"
root "the tests"
need cc fio jq
alone "$@"

# These tests act on a device beneath the file system, need swap on a mount, or need a drive with
# injected failures; the tests of front/fuse cover the latter.
declare -A left_out=(
  [0002]="makes an F2FS on the zones"
  [0400]="swaps to a file of FUSE"
  [0511]="opens zones of an unmounted device"
  [0512]="writes zones of an unmounted device"
)
for test in 060{0..7}; do left_out[$test]="writes zones beneath a mount"; done
for test in 061{0..7} 062{0..7}; do left_out[$test]="needs null_blk, whose zones fail by order"; done

work=$(mktemp -d)
clean() {
  umount -l "$work/m" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

cp -r "$tools/tests" "$work/tests"
cp "$flashloom" "$work/flashloom"
for tool in zio zopen; do cc -O2 -o "$work/tests/tools/$tool" "$work/tests/tools/$tool.c"; done
cat "$repository/scripts/suites/zonefs.sh" >>"$work/tests/scripts/test_lib"
mkdir "$work/m"

export FLASHLOOM=$work/flashloom ZONEFS_WORK=$work ZONEFS_DRIVE=$work/z.flash
export ZONEFS_MAX_OPEN=4 ZONEFS_MAX_ACTIVE=6 ZONEFS_SIZE=256MiB
export zonefs_mntdir=$work/m logdir=$work short=false iosize=262144 zonefs_has_sysfs=1

# fresh CONVENTIONAL: a drive with that many conventional zones, and its limits for the tests.
fresh() {
  cat >"$work/zones.toml" <<TOML
preset = "zns"
[zones]
conventional = $1
max_open = $ZONEFS_MAX_OPEN
max_active = $ZONEFS_MAX_ACTIVE
TOML
  "$FLASHLOOM" drive create "$ZONEFS_DRIVE" --preset "$work/zones.toml" \
    --size "$ZONEFS_SIZE" --force >/dev/null
  "$FLASHLOOM" drive zones "$ZONEFS_DRIVE" --json >"$work/zones.json"
  told() { jq "$1" "$work/zones.json"; }
  nr_zones=$(told .zones) nr_cnv_zones=$1
  zone_bytes=$(told .size_bytes) zone_cap_bytes=$(told .capacity_bytes)
  total_usable_sectors=$(($(told '[.list[1:][].capacity_bytes] | add') / 512))
  nr_seq_zones=$((nr_zones - nr_cnv_zones))
  nr_cnv_files=$((nr_cnv_zones > 0 ? nr_cnv_zones - 1 : 0))
  nr_seq_files=$((nr_cnv_zones > 0 ? nr_seq_zones : nr_seq_zones - 1))
  zone_sectors=$((zone_bytes / 512)) zone_cap_sectors=$((zone_cap_bytes / 512))
  seq_file_0_max_size=$zone_cap_bytes
  seq_file_0_zone_start_sector=$(((nr_zones - nr_seq_files) * zone_sectors))
  export nr_zones nr_cnv_zones nr_seq_zones nr_cnv_files nr_seq_files total_usable_sectors
  export zone_bytes zone_cap_bytes zone_sectors zone_cap_sectors
  export seq_file_0_max_size seq_file_0_zone_start_sector
}

cd "$work/tests"
failures=0
for conventional in 3 0; do
  fresh "$conventional"
  passed=0 skipped=0 failed=0
  for script in scripts/0*.sh; do
    test=$(basename "$script" .sh)
    [ $# = 0 ] || [[ " $* " == *" $test "* ]] || continue
    if [ -n "${left_out[$test]:-}" ]; then
      skipped=$((skipped + 1))
      continue
    fi
    status=0
    timeout 600 "$BASH" "$script" "$ZONEFS_DRIVE" >"$work/$test.log" 2>&1 || status=$?
    umount "$work/m" 2>/dev/null || true
    case $status in
      0) passed=$((passed + 1)) ;;
      2) skipped=$((skipped + 1)) ;;
      *)
        failed=$((failed + 1))
        echo "$test failed with $conventional conventional zones: $("$BASH" "$script")"
        tail -n 20 "$work/$test.log"
        # The drive of a mount that was left behind.
        fresh "$conventional"
        ;;
    esac
  done
  echo "$conventional conventional zones: $passed passed, $failed failed, $skipped not applicable"
  failures=$((failures + failed))
done
[ "$failures" = 0 ]
