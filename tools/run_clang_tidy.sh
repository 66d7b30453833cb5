#!/usr/bin/env bash
# Runs clang-tidy on the C++ sources of a build, in parallel; a file that passed is not looked at again until something
# in src/, include/, apps/ or .clang-tidy is newer than its stamp.
# Usage: run_clang_tidy.sh BUILD_DIR [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
stamps=$build/tidy
mkdir -p "$stamps"

if [[ $# -gt 0 ]]; then
  files=("$@")
else
  mapfile -t files < <(find src apps -name '*.cpp' | sort)
fi
newest_header=$(find include src apps .clang-tidy \( -name '*.h*' -o -name .clang-tidy \) -printf '%T@ %p\n' | sort -n |
  tail -n 1 | cut -d ' ' -f 2-)

stale=()
for file in "${files[@]}"; do
  stamp=$stamps/${file//\//_}
  grep -q "\"$PWD/$file\"" "$build/compile_commands.json" || continue
  [[ $stamp -nt $file && $stamp -nt $newest_header ]] || stale+=("$file")
done
echo "${#stale[@]} of ${#files[@]} files to look at"
[[ ${#stale[@]} -gt 0 ]] || exit 0

# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\0' "${stale[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c '
  clang-tidy --quiet --extra-arg=-Wno-ignored-optimization-argument -p "$0" "$2" && touch "$1/${2//\//_}"' "$build" "$stamps"
