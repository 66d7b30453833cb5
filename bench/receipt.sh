#!/usr/bin/env bash
# usage: bench/receipt.sh TOOL [DEVICE [OPTIONS...]]
#
# How long an answer of 1,000 tokens takes, with its receipt, and how long to verify it: as whole processes, which load and hash the
# model, and after loading. Best of three. --model DIR and --threads N go to both commands, other options to generate alone.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
tool=$1 device=${2-cpu}
shift "$(($# < 2 ? $# : 2))"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export REPROFUSE_KEY=$folder/key
"$tool" keys new "$REPROFUSE_KEY" >/dev/null

# least A B
least() { awk -v a="$1" -v b="$2" 'BEGIN { print a == "" || b < a ? b : a }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a / b }'; }
after_generate() { python3 -c 'import json, sys; run = json.load(sys.stdin); print(run["prefill_seconds"] + run["decode_seconds"])' <"$folder/out"; }
after_verify() { sed -n 's/.*checked in \([0-9.]*\) s$/\1/p' "$folder/err"; }

# best AFTER COMMAND...: the least seconds of three runs: of the process, and after loading, as AFTER finds them.
best() {
  local after=$1 whole='' rest='' begin
  shift
  for _ in 1 2 3; do
    begin=$EPOCHREALTIME
    "$@" >"$folder/out" 2>"$folder/err" || { cat "$folder/err" >&2; exit 1; }
    whole=$(least "$whole" "$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }')")
    rest=$(least "$rest" "$($after)")
  done
  echo "$whole $rest"
}

shared=()
for ((i = 1; i < $#; ++i)); do
  [[ ${!i} != --model && ${!i} != --threads ]] || { j=$((i + 1)); shared+=("${!i}" "${!j}"); }
done
printf '%-14s %10s %10s %8s   %14s %14s %8s\n' numerics generate verify ratio 'after loading' 'after loading' ratio
for numerics in fma-1 exact-1; do
  read -r made computed < <(best after_generate "$tool" generate --device "$device" --numerics "$numerics" --json \
    --prompt-tokens 1,2,3,4,5,6,7 --ignore-stop --max-tokens 1000 --receipt "$folder/$numerics.json" "$@")
  read -r verified checked < <(best after_verify "$tool" verify --device "$device" "${shared[@]}" "$folder/$numerics.json")
  printf '%-14s %8.3f s %8.3f s %8s   %12.3f s %12.3f s %8s\n' "$numerics" "$made" "$verified" "$(ratio "$made" "$verified")" \
    "$computed" "$checked" "$(ratio "$computed" "$checked")"
done
