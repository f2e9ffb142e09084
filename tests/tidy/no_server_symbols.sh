#!/usr/bin/env bash
# The given programs must not contain or need anything that only the server uses.
# Usage: no_server_symbols.sh PROGRAM...
set -euo pipefail
pattern='sqlite3_|mysql_|argon2|tmesh::storage|tmesh::http::Server'
status=0
for program in "$@"; do
  # Read first: a program without symbols must not look like a clean one.
  symbols=$(nm -C "$program")
  if ! grep -q ' T main$' <<<"$symbols"; then
    echo "$program has no symbols to look at"
    status=1
  fi
  if found=$(grep -E "$pattern" <<<"$symbols"); then
    echo "$program has symbols of the server:"
    head -5 <<<"$found"
    status=1
  fi
  needed=$(ldd "$program")
  if found=$(grep -E 'sqlite|mysql|mariadb|argon2' <<<"$needed"); then
    echo "$program needs: $found"
    status=1
  fi
done
exit $status
