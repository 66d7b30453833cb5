#!/usr/bin/env bash
# Installs the build into a fresh folder, moves it, and uses it the two ways a package can be found.
# Usage: install_test.sh BUILD_DIR CMAKE C_COMPILER CXX_COMPILER
set -euo pipefail
build=$1 cmake=$2 cc=$3 cxx=$4
examples=$(cd "$(dirname "$0")/../../examples" && pwd)

if ! command -v pkg-config >/dev/null; then
  echo "skipped: pkg-config is not installed"
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/staged" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/staged" "$work/moved" # nothing may remember where it was installed
prefix=$work/moved
libdir=$(dirname "$(find "$prefix" -name libreprofuse.so)")
export LD_LIBRARY_PATH=$libdir
model=$prefix/share/reprofuse/models/arithmetic-7m

echo "== a C program, found by pkg-config"
export PKG_CONFIG_PATH=$libdir/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs reprofuse)"
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$examples/generate.c" -o "$work/generate" "${flags[@]}"
"$work/generate" "$model" | tee "$work/answer"
grep -q "Answer: 42" "$work/answer"

echo "== a Python program, by ctypes"
python3 "$examples/generate.py" "$libdir/libreprofuse.so" "$model" | cmp - "$work/answer"

echo "== a C++ program, found by find_package"
"$cmake" -G Ninja -S "$examples/cmake_project" -B "$work/cpp" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx"
"$cmake" --build "$work/cpp"
"$work/cpp/ask" "$model" "What is 12 + 30?" | tee "$work/answer"
grep -q "Answer: 42" "$work/answer"
if "$work/cpp/ask" "$work" "?"; then # an Error is caught by its type across the library's border
  echo "a folder without a model passes"
  exit 1
fi

echo "== the installed tool"
"$prefix/bin/reprofuse" --version
cd / # the installed tool finds its model by itself
"$prefix/bin/reprofuse" info | grep -qF "Model $prefix/share/reprofuse/models/arithmetic-7m"
"$prefix/bin/reprofuse" generate --chat --prompt "What is 12 + 30?" --max-tokens 40
