#!/usr/bin/env bash
# Runs clang-tidy on the library and the command line tool, as many files at once as there are cores. The preset `tidy`
# puts many sources into one file, so that what they all include is read once; any other build's folder serves as well.
# Usage: run_clang_tidy.sh BUILD_DIR [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
if [[ $# -gt 0 ]]; then
  files=("$@")
else
  mapfile -t files < <(sed -n 's/^ *"file": "\(.*\.c\(pp\|xx\)\)",\?$/\1/p' "$build/compile_commands.json" |
    grep -E '/(src|apps|reprofuse_above_core.dir)/' | sort)
fi
[[ ${#files[@]} -gt 0 ]] || { echo "$build compiles nothing of src/ and apps/" >&2 && exit 1; }
echo "${#files[@]} files to look at"
# A file that includes sources is what the preset makes, and nobody's mistake.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet --checks=-bugprone-suspicious-include \
  --extra-arg=-Wno-ignored-optimization-argument -p "$build"
