#!/bin/sh
# run.sh FUZZER: passes when the fuzzer finds the planted bug within 30 seconds,
# starting from nothing. Finding something is a failure of the fuzzer's, so it is no
# failure of this script: exit codes are looked at here.
set -u
fuzzer=$1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
if "$fuzzer" -max_total_time=30 -max_len=256 -artifact_prefix="$scratch/" "$scratch" >"$scratch/log" 2>&1; then
  echo "the planted bug was not found in 30 s" >&2
  exit 1
fi
if ! grep -q 'assertion failed' "$scratch/log"; then
  echo "the fuzzer failed for another reason:" >&2
  tail -n 20 "$scratch/log" >&2
  exit 1
fi
echo "found: $(grep 'assertion failed' "$scratch/log")"
