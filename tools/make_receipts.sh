#!/usr/bin/env bash
# usage: tools/make_receipts.sh TOOL DEVICE OUTDIR [CONTRACT...]
#
# Makes the receipts of golden/receipts/ on a device: for each contract (default: all) a greedy answer, with the roots of its steps, and a
# sampled one, each naming the one before it. They are signed with the key that REPROFUSE_KEY names, or else with a new one that
# nobody keeps; its public part is OUTDIR/key.pem. What was made is verified, on the same device, before the script ends.
set -euo pipefail
[[ $# -ge 3 ]] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
tool=$1 device=$2 folder=$3
shift 3
contracts=("$@")
[[ $# -gt 0 ]] || contracts=(fma-1 fma-1-kv16 exact-1 exact-1-kv16 exact-2 int16-1)

question="Tom has 3 boxes of 12 pens. He gives away 7 pens and then buys 10 more. How many pens does he have?"
story="A train has 4 cars with 25 seats each. 38 seats are free. How many people sit in the train?"

mkdir -p "$folder"
if [[ -z ${REPROFUSE_KEY-} ]]; then
  keys=$(mktemp -d)
  trap 'rm -rf "$keys"' EXIT
  export REPROFUSE_KEY=$keys/key
  "$tool" keys new "$REPROFUSE_KEY" >/dev/null
fi
"$tool" keys show >"$folder/key.pem"

receipts=()
make_receipt() { # NAME NUMERICS OPTIONS...
  local file=$folder/$1.json numerics=$2
  shift 2
  local previous=()
  [[ ${#receipts[@]} -eq 0 ]] || previous=(--receipt-previous "${receipts[-1]}")
  "$tool" generate --chat --device "$device" --numerics "$numerics" --receipt "$file" "${previous[@]}" "$@" >/dev/null
  receipts+=("$file")
}
for numerics in "${contracts[@]}"; do
  make_receipt "$numerics-greedy" "$numerics" --prompt "$question" --receipt-roots
  make_receipt "$numerics-sampled" "$numerics" --prompt "$story" --temperature 1.5 --top-p 0.95 --top-k 50 --min-p 0.01 \
    --repetition-penalty 1.1 --seed 18446744073709551615 --max-tokens 60 --receipt-nonce "$device"
done
"$tool" verify --device "$device" --key "$folder/key.pem" "${receipts[@]}" >/dev/null
