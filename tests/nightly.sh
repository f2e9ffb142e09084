#!/usr/bin/env bash
# What is too long for `make test`; `make nightly` runs it. Every step runs even when one
# before it failed; the exit code says whether all passed, the summary which and how long.
#
# Usage: nightly.sh [STEP...]     sim e2e fuzz tidy asan tsan; all of them by default
#   SEEDS=100000 FIRST_SEED=...   simulation; by default other seeds every day
#   FUZZ_SECONDS=60               per fuzz target
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
day=$(($(date +%s) / 86400))

# Batches of seeds over the cores; a failing batch prints its seed.
sim() {
  local seeds=${SEEDS:-100000} first=${FIRST_SEED:-$((day * 100000))} batch=250 last
  last=$((first + seeds - 1))
  printf 'seeds %d to %d\n' "$first" "$last"
  if ! seq "$first" "$batch" "$last" |
    awk -v last="$last" -v batch="$batch" '{ to = $1 + batch - 1; print $1, to < last ? to : last }' |
    xargs -P "$jobs" -L 1 build/tests/sim_random >build/nightly-sim.log; then
    tail -n 60 build/nightly-sim.log
    return 1
  fi
  awk '{ seeds += $1; steps += $3 } END { printf "%d seeds, %d steps\n", seeds, steps }' build/nightly-sim.log
}

# The long form of the end-to-end tests, one file after another, since they measure.
e2e() {
  local status=0 file
  for file in tests/e2e/test_*.py; do
    printf -- '-- %s\n' "$file"
    TMESH_LONG=1 TMESH_BIN=build/bin timeout 3600 python3 -B "$file" || status=1
  done
  return "$status"
}

if [ "${1:-}" = --step ]; then
  case $2 in
    sim) sim ;;
    e2e) e2e ;;
    fuzz | asan | tidy) make --no-print-directory "$2" ;;
    tsan) make --no-print-directory tsan-all ;;
    *)
      echo "nightly: there is no step $2" >&2
      exit 2
      ;;
  esac
  exit
fi

[ $# -gt 0 ] || set -- sim e2e fuzz tidy asan tsan
make --no-print-directory setup build
summary=()
status=0
for step in "$@"; do
  printf '\n== %s (%s)\n' "$step" "$(date +%T)"
  begin=$SECONDS
  result=passed
  # A process of its own: inside a condition a function would go on behind a failed command.
  tests/nightly.sh --step "$step" || {
    result=FAILED
    status=1
  }
  summary+=("$step: $result in $((SECONDS - begin)) s")
done
printf '\n== nightly\n'
printf '%s\n' "${summary[@]}"
exit "$status"
