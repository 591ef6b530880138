# What the scripts share, who read it first: where flashloom is, how they end, and what
# they need. FLASHLOOM names another flashloom than target/release's.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
flashloom=${FLASHLOOM:-$repository/target/release/flashloom}

stop() {
  echo "$(basename "$0" .sh): $*" >&2
  exit 1
}

built() {
  [ -x "$flashloom" ] || stop "$flashloom is not built (cargo build --release)"
}

# root WHO: WHO cannot do without.
root() {
  [ "$(id -u)" = 0 ] || stop "$* need root"
}

need() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || stop "$tool is not installed"
  done
}

# alone ARGUMENT...: starts the script anew where nobody else sees its mounts. Who looks
# at one while it is to be unmounted, as `df` does, would make it busy.
alone() {
  [ -n "${MOUNTS_ALONE:-}" ] ||
    MOUNTS_ALONE=yes exec unshare --mount --propagation private "$BASH" "$0" "$@"
}

# emulated_zones DIR COUNT MIB: a folder that can be used as zones of so many MiB.
emulated_zones() {
  mkdir -p "$1/seq"
  printf 'capacity=%d\nopen=14\nactive=14\n' $(($3 << 20)) >"$1/emulated"
  local zone
  for zone in $(seq 0 $(($2 - 1))); do : >"$1/seq/$zone"; done
}
