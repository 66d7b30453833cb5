#!/usr/bin/env bash
# Installs the build into a fresh folder, moves it, and uses it the two ways a package can be found.
# Usage: install_test.sh BUILD_DIR CMAKE C_COMPILER CXX_COMPILER
set -euo pipefail
build=$1 cmake=$2 cc=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)

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

echo "== a C program, found by pkg-config"
export PKG_CONFIG_PATH=$libdir/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs reprofuse)"
"$cc" -std=c99 -Wall -Wextra -Werror "$here/c_consumer/main.c" -o "$work/c_consumer" "${flags[@]}"
"$work/c_consumer"

echo "== a C++ program, found by find_package"
"$cmake" -G Ninja -S "$here/cpp_consumer" -B "$work/cpp" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx"
"$cmake" --build "$work/cpp"
"$work/cpp/cpp_consumer"

echo "== the installed tool"
"$prefix/bin/reprofuse" --version
cd / # the installed tool finds its model by itself
"$prefix/bin/reprofuse" info | grep -qF "Model $prefix/share/reprofuse/models/arithmetic-7m"
"$prefix/bin/reprofuse" generate --chat --prompt "What is 12 + 30?" --max-tokens 40
