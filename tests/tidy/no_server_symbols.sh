#!/usr/bin/env bash
# The given programs must not contain or need anything that only the server uses.
# Usage: no_server_symbols.sh PROGRAM...
set -euo pipefail
pattern='sqlite3_|mysql_|argon2|tmesh::storage|tmesh::http::Server'
status=0
for program in "$@"; do
  if symbols=$(nm -C "$program" | grep -E "$pattern"); then
    echo "$program has symbols of the server:"
    head -5 <<<"$symbols"
    status=1
  fi
  if needed=$(ldd "$program" | grep -E 'sqlite|mysql|mariadb|argon2'); then
    echo "$program needs: $needed"
    status=1
  fi
done
exit $status
