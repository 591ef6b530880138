# Shared parts of the scripts, which source this file first: the path of flashloom, failure
# messages, and checks of requirements. FLASHLOOM selects another flashloom than target/release's.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
flashloom=${FLASHLOOM:-$repository/target/release/flashloom}

stop() {
  echo "$(basename "$0" .sh): $*" >&2
  exit 1
}

built() {
  [ -x "$flashloom" ] || stop "$flashloom is not built (cargo build --release)"
}

# measured: builds flashloom for a measurement of speed, unless FLASHLOOM selects another one.
measured() {
  [ -n "${FLASHLOOM:-}" ] ||
    (cd "$repository" && cargo build --quiet --profile bench --package flashloom)
  built
}

# root NAME: stops unless the script runs as root, which NAME needs.
root() {
  [ "$(id -u)" = 0 ] || stop "$* need root"
}

need() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || stop "$tool is not installed"
  done
}

# alone ARGUMENT...: restarts the script in a mount namespace of its own. A process that looks at a
# mount during its unmount, as `df` does, would make it busy.
alone() {
  [ -n "${MOUNTS_ALONE:-}" ] ||
    MOUNTS_ALONE=yes exec unshare --mount --propagation private "$BASH" "$0" "$@"
}

# emulated_zones DIR COUNT MIB: creates a folder that can be used as COUNT zones of MIB each.
emulated_zones() {
  mkdir -p "$1/seq"
  printf 'capacity=%d\nopen=14\nactive=14\n' $(($3 << 20)) >"$1/emulated"
  local zone
  for zone in $(seq 0 $(($2 - 1))); do : >"$1/seq/$zone"; done
}
