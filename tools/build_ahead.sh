#!/usr/bin/env bash
# Started by ./run-tests: builds what its steps need, in their order, with what their tests leave of the processor. A test that
# waits, or has one thread, leaves a core. build/logs/PRESET.built says how a build went.
# Usage: build_ahead.sh STEP...
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh
source tools/test_steps.sh

declare -A PRESET=([release]=release [gpu-audit]=release [asan]=asan [tsan]=tsan [aarch64]=aarch64 [s390x]=s390x
  [s390x-models]=s390x [riscv64]=riscv64)

build() {
  local preset=$1 status=failed options=()
  [[ $preset != release || -f build/CMakeCache.txt ]] || options=(-DREPROFUSE_CUDA_ARCHITECTURES="$TEST_ARCHITECTURES")
  quietly "$LOGS/$preset-configure.log" cmake --preset "$preset" "${options[@]}" &&
    quietly "$LOGS/$preset-build.log" without_aslr cmake --build --preset "$preset" --parallel "$(cores)" && status=well
  echo "$status" >"$LOGS/$preset.built"
}

renice -n 19 "$$" >/dev/null
echo 19 2>/dev/null >/proc/self/autogroup || true # the kernel may share out the processor by sessions
for step in "$@"; do
  [[ -z ${PRESET[$step]-} || -f $LOGS/${PRESET[$step]}.built ]] || build "${PRESET[$step]}"
done
