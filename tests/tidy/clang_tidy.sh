#!/usr/bin/env bash
# clang-tidy over every source of the product in a build folder's compile commands.
# Usage: clang_tidy.sh BUILD_DIR
set -euo pipefail
build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
pattern="^$root/(core|cpp|cmd)/.*\.(c|cpp)$"
# Nothing to look at would be nothing to complain about.
count=$(sed -n 's/^ *"file": "\(.*\)",*$/\1/p' "$build/compile_commands.json" | grep -cE "$pattern" || true)
if [ "$count" -lt 100 ]; then
  echo "clang-tidy: only $count sources in $build/compile_commands.json"
  exit 1
fi
# gcc's flags that clang does not know would be errors of their own.
run-clang-tidy-19 -quiet -p "$build" -j "$(nproc)" \
  -extra-arg=-Wno-unknown-warning-option "$pattern" >"$build/clang-tidy.log" 2>&1 || {
  grep -E '(warning|error):' "$build/clang-tidy.log" | sort -u | head -50
  echo "clang-tidy: problems; the whole output is in $build/clang-tidy.log"
  exit 1
}
echo "clang-tidy: $count sources are clean"
