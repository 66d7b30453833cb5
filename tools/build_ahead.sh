#!/usr/bin/env bash
# Started by ./run-tests: builds what its steps need, in their order, with what their tests leave of the processor. A test that
# waits, or has one thread, leaves a core. build/logs/PRESET.built says how a build went.
# Usage: build_ahead.sh STEP...
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh
source tools/test_steps.sh

declare -A PRESET=([release]=release [gpu-audit]=release [asan]=asan [tsan]=tsan [aarch64]=aarch64 [s390x]=s390x
  [riscv64]=riscv64)

# The implementations that text is compared with, the clients that the server is asked by, and the browser that shows its
# page. Without them their tests are skipped, and say so; what others gave for texts once is committed and always compared.
install_npm_packages() {
  (ensure_packages "tests of the server's page" chromium fonts-dejavu-core curl) || true
  command -v npm >/dev/null || (ensure_packages "comparisons of text and clients of the server" nodejs npm) || return 0
  local folder
  for folder in tests/text/npm tests/server/clients tests/server/page; do
    quietly "$LOGS/npm-${folder//\//-}.log" \
      timeout 180 npm ci --ignore-scripts --no-audit --no-fund --prefix "$folder" ||
      say "the npm packages of $folder could not be installed, so its tests are skipped"
  done
}

build() {
  local preset=$1 status=failed
  quietly "$LOGS/$preset-configure.log" cmake --preset "$preset" &&
    quietly "$LOGS/$preset-build.log" without_aslr cmake --build --preset "$preset" --parallel "$(cores)" && status=well
  echo "$status" >"$LOGS/$preset.built"
}

renice -n 19 "$$" >/dev/null
echo 19 2>/dev/null >/proc/self/autogroup || true # the kernel may share out the processor by sessions
for step in "$@"; do
  case $step in
    release) install_npm_packages ;;
    riscv64) ensure_packages "the step riscv64" g++-riscv64-linux-gnu ;;
  esac
  [[ -z ${PRESET[$step]-} || -f $LOGS/${PRESET[$step]}.built ]] || build "${PRESET[$step]}"
done
