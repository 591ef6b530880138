# Runs the group "quick" of xfstests' generic tests, each on its own and with a time limit. Sourced
# by `beside-suites.sh`.

# Time limit of a test in seconds.
limit=${SUITES_LIMIT:-240}

# The test numbers in one of the tables of docs/suites.md, which list the tests that do not pass and
# the reasons.
known() {
  sed -n "/^### $1/,/^#/p" "$repository/docs/suites.md" | grep '^| generic/' |
    cut -d '|' -f 2 | grep -o '[0-9]\{3\}' || true
}

# Processes that serve the drives of this run; their paths are unique to it.
servers() {
  pgrep -f "mount $kind $work/[ts].flash " || true
}

# Removes the mounts that an aborted test has left. A process that still waits for a mount gets an
# error when the server of that mount ends.
let_go() {
  servers | xargs -r kill 2>/dev/null || true
  umount -l "$work/test" 2>/dev/null || true
  umount -l "$work/scratch" 2>/dev/null || true
  for _ in $(seq 60); do
    [ -n "$(servers)" ] || return 0
    sleep 1
  done
  servers | xargs -r kill -9 2>/dev/null || true
}

# Keeps the file system between tests, as xfstests does on a kernel drive, unless its drive is
# large: a drive full of deleted data takes long to save.
refresh() {
  local size
  size=$(stat -c %s "$work/$1.flash")
  [ "$size" -gt 134217728 ] || return 0
  umount "$2" 2>/dev/null || true
  let_go
  sound "$1"
  new_drive "$1" 2GiB
}

judge_with_xfstests() {
  need mount.fuse.flashloom xfs_io fio
  for user in fsgqa fsgqa2 123456-fsgqa; do
    id "$user" >/dev/null 2>&1 || stop "xfstests want the user $user"
  done
  new_drive t 2GiB
  new_drive s 2GiB
  mkdir -p "$work/test" "$work/scratch" "$work/results"
  export FSTYP=fuse FUSE_SUBTYP=.flashloom RESULT_BASE=$work/results
  export TEST_DEV=$work/t.flash TEST_DIR=$work/test
  export SCRATCH_DEV=$work/s.flash SCRATCH_MNT=$work/scratch
  local tests outcome
  tests=${SUITES_TESTS:-$(awk '/ quick/ {print $1}' "$XFSTESTS/tests/generic/group.list")}
  : >"$work/outcomes"
  for number in $tests; do
    refresh s "$work/scratch"
    refresh t "$work/test"
    outcome=$(run_xfstest "$number")
    echo "$number $outcome" >>"$work/outcomes"
    [ -z "${SUITES_LOUD:-}" ] || echo "$number $outcome" >&2
  done
  let_go
}

run_xfstest() {
  local status=0 said="$work/results/$1.said"
  (cd "$XFSTESTS" && timeout -k 5 "$limit" ./check "generic/$1") >"$said" 2>&1 || status=$?
  if [ "$status" -ge 124 ]; then
    let_go
    echo "stopped after $limit s"
  elif [ "$status" -ne 0 ]; then
    echo "failed"
  elif grep -q '^Not run' "$said"; then
    echo "notrun $(sed -n "s/.*\[not run\] *//p" "$said" | head -1)"
  else
    echo passed
  fi
}

# Counts the outcomes; a failing test that is not listed is an error.
report_xfstests() {
  local known wrong
  known=$(known "Tests that do not pass")
  wrong=$(awk '$2 == "failed" || $2 == "stopped" {print $1}' "$work/outcomes" |
    grep -v -x -F "$known" || true)
  awk '{count[$2]++} END {for (kind in count) print "xfstests " kind ": " count[kind]}' \
    "$work/outcomes"
  if [ -n "${SUITES_KEEP:-}" ]; then
    cp -r "$work/outcomes" "$work/results" "$SUITES_KEEP"
  fi
  [ -z "$wrong" ] || stop "not listed as not passing: $(echo "$wrong" | tr '\n' ' ')"
}
