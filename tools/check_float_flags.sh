#!/usr/bin/env bash
# Floating-point flags live in cmake/FloatingPoint.cmake and nowhere else: one stray flag could move bits.
set -euo pipefail
cd "$(dirname "$0")/.."
flags='-ffast-math|-Ofast|-funsafe-math|-fassociative-math|-freciprocal-math|-ffinite-math|-fno-signed-zeros'
flags+='|-fno-math-errno|-fno-trapping-math|-frounding-math|-ffp-contract|-mfma|-march=|-mtune='
flags+='|use_fast_math|--?fmad|--?ftz|--?prec-(div|sqrt)|float_control|fp_contract|FP_CONTRACT|__optimize__|optimize\("'
found=$(grep -rnE --exclude-dir=audit --exclude-dir=node_modules --exclude=FloatingPoint.cmake -e "$flags" \
  CMakeLists.txt CMakePresets.json cmake src include apps bench fuzz tests | grep -v '#error' || true)
if [[ -n $found ]]; then
  printf '%s\n' "floating-point flags outside cmake/FloatingPoint.cmake:" "$found"
  exit 1
fi
echo "no floating-point flags outside cmake/FloatingPoint.cmake"
