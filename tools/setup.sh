# Sourced by ./quickstart and ./run-tests: packages, builds and messages.
# shellcheck shell=bash disable=SC2034

BUILD_PACKAGES=(
  g++ cmake ninja-build libhwy-dev libfmt-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev
  libssl-dev                      # signatures of receipts
  libboost-dev prometheus-cpp-dev # `reprofuse serve`
  libopenmpi-dev openmpi-bin      # several ranks
)

if [[ -t 1 && -z ${NO_COLOR-} ]]; then
  BOLD=$'\e[1m' RED=$'\e[31m' PLAIN=$'\e[0m'
else
  BOLD='' RED='' PLAIN=''
fi

say() { printf '%s\n' "${BOLD}==>${PLAIN} $*"; }
die() {
  printf '%s\n' "${RED}error:${PLAIN} $*" >&2
  exit 1
}

cores() { nproc; }

# quietly LOG COMMAND...: output goes to LOG, whose end is shown when the command fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 </dev/null && return 0
  local status=$?
  printf '%s\n' "${RED}failed${PLAIN} (exit status $status): ${*:1:4}" "the end of $log:" >&2
  tail -n 40 "$log" >&2
  return "$status"
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "this needs root: run it as root, install sudo, or run by hand: $*"
  fi
}

missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

# ensure_packages WHY PACKAGE...: installs what is missing. With nothing missing it does not touch the network.
ensure_packages() {
  local why=$1 missing
  shift
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here, so nothing is installed; $why needs the equivalents of: $*"
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  say "installing ${#missing[@]} Debian packages for $why: ${missing[*]}"
  quietly build/logs/apt-update.log as_root apt-get update
  quietly build/logs/apt-install.log as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "${missing[@]}"
}

# cuda_status BUILD: whether the configured build has CUDA, and why: "ON: ..." or "OFF: ...".
cuda_status() { sed -n 's/^REPROFUSE_CUDA_STATUS:INTERNAL=//p' "$1/CMakeCache.txt"; }
