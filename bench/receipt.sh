#!/usr/bin/env bash
# usage: bench/receipt.sh TOOL [DEVICE [OPTIONS OF GENERATE...]]
#
# How long an answer of 1,000 tokens takes, with its receipt, and how long to verify it: whole processes, which load and hash the
# model, and the part of it that follows. Best of three.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
tool=$1 device=${2-cpu}
shift "$(($# < 2 ? $# : 2))"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export REPROFUSE_KEY=$folder/key
"$tool" keys new "$REPROFUSE_KEY" >/dev/null

# best COMMAND...: the least seconds of three runs.
best() {
  local least='' begin seconds
  for _ in 1 2 3; do
    begin=$EPOCHREALTIME
    "$@" >/dev/null 2>&1
    seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }')
    least=$(awk -v a="${least:-$seconds}" -v b="$seconds" 'BEGIN { print a < b ? a : b }')
  done
  echo "$least"
}

model=()
for ((i = 1; i < $#; ++i)); do [[ ${!i} != --model ]] || { j=$((i + 1)); model=(--model "${!j}"); }; done
printf '%-14s %10s %10s %8s\n' numerics generate verify ratio
for numerics in fma-1 exact-1; do
  generate=("$tool" generate --device "$device" --numerics "$numerics" --prompt-tokens 1,2,3,4,5,6,7 --ignore-stop --max-tokens 1000
    --receipt "$folder/$numerics.json" "$@")
  made=$(best "${generate[@]}")
  verified=$(best "$tool" verify --device "$device" "${model[@]}" "$folder/$numerics.json")
  printf '%-14s %8s s %8s s %8s\n' "$numerics" "$made" "$verified" "$(awk -v a="$made" -v b="$verified" 'BEGIN { printf "%.1f", a / b }')"
done
