#!/usr/bin/env bash
# A throw-away CA and a server certificate for tests.
# Usage: make_ca.sh DIR [SAN]   (SAN defaults to DNS:localhost,IP:127.0.0.1)
# Writes ca.pem, server.pem, server-key.pem into DIR.
set -euo pipefail
dir=$1
san=${2:-DNS:localhost,IP:127.0.0.1}
mkdir -p "$dir"
cd "$dir"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj '/CN=TunnelMesh test CA' \
  -keyout ca-key.pem -out ca.pem 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=tunnelmesh test server' \
  -keyout server-key.pem -out server.csr 2>/dev/null
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 30 -out server.pem \
  -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$san") 2>/dev/null
rm -f server.csr ca.srl
