#!/usr/bin/env bash
# clang-tidy over every source of the product in a build folder's compile commands.
# Usage: clang_tidy.sh BUILD_DIR
set -euo pipefail
build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
# gcc's flags that clang does not know would be errors of their own.
run-clang-tidy-19 -quiet -p "$build" -j "$(nproc)" \
  -extra-arg=-Wno-unknown-warning-option "^$root/(core|cpp|cmd)/.*\.(c|cpp)$" >"$build/clang-tidy.log" 2>&1 || {
  grep -E '(warning|error):' "$build/clang-tidy.log" | sort -u | head -50
  echo "clang-tidy: problems; the whole output is in $build/clang-tidy.log"
  exit 1
}
echo 'clang-tidy: clean'
