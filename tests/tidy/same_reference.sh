#!/usr/bin/env bash
# The committed reference of the configuration keys must be what the server prints.
# Usage: same_reference.sh TUNNELMESH_SERVER FILE
set -euo pipefail
if "$1" config-reference | diff -u "$2" -; then exit 0; fi
echo "make it anew: build/bin/tunnelmesh-server config-reference >docs/operations/configuration.md"
exit 1
