#!/usr/bin/env bash
# The main job on one machine: a page of a "private" web server, loaded through
# SOCKS5 client -> server -> agent. Prints what happens hop by hop. With CHECK=1 it
# stops afterwards with an exit code; otherwise it stays up until Ctrl-C.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
bin=${TMESH_BIN:-$root/build/bin}
dir=$(mktemp -d "${TMPDIR:-/tmp}/tunnelmesh-demo.XXXXXX")
started=$(date +%s%N)
pids=()

cleanup() {
  local status=$?
  trap - EXIT INT TERM
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  if [ "$status" -ne 0 ]; then
    for log in "$dir"/*.log; do
      echo "--- $(basename "$log")" >&2
      tail -n 20 "$log" >&2
    done
  fi
  rm -rf "$dir"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

wait_for() { # what, command...
  local what=$1
  shift
  for _ in $(seq 200); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.05
  done
  echo "demo: gave up waiting for $what" >&2
  return 1
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

web=$(free_port)
http=$(free_port)
socks=$(free_port)

mkdir "$dir/www"
cat >"$dir/www/index.html" <<'PAGE'
<!doctype html><title>TunnelMesh demo</title>
<h1>It works</h1><p>This page came from a private web server through client, server and agent.</p>
PAGE
python3 -m http.server --bind 127.0.0.1 --directory "$dir/www" "$web" >"$dir/web.log" 2>&1 &
pids+=($!)

echo "1. set-up      tunnelmesh-server quickstart: database, agent, tokens, policy, three configuration files"
"$bin/tunnelmesh-server" quickstart --dir "$dir/mesh" --agent home --listen "127.0.0.1:$http" \
  --socks5 "127.0.0.1:$socks" --allow "127.0.0.1:$web" >"$dir/quickstart.log"

for role in server agent client; do
  "$bin/tunnelmesh-$role" run --config "$dir/mesh/$role.yaml" >"$dir/$role.log" 2>&1 &
  pids+=($!)
  if [ "$role" = server ]; then wait_for "the server" port_open "$http"; fi
done

url="http://127.0.0.1:$web/"
load() { curl -sS --fail --max-time 10 --proxy "socks5h://127.0.0.1:$socks" "$url"; }
wait_for "the first page" load
page=$(load)
case $page in
*"It works"*) ;;
*)
  echo "demo: the page is not the one that was served" >&2
  exit 1
  ;;
esac

echo "2. browser     curl --proxy socks5h://127.0.0.1:$socks $url"
echo "3. client      tunnelmesh-client: SOCKS5 entry on 127.0.0.1:$socks, one WebSocket to the server"
echo "4. server      tunnelmesh-server: 127.0.0.1:$http, authorised the stream, chose the agent \"home\""
echo "5. agent       tunnelmesh-agent: dialled the private web server on 127.0.0.1:$web"
echo "6. page        $(grep -o '<h1>.*</h1>' <<<"$page")"
refused=0
curl -sS --max-time 10 --proxy "socks5h://127.0.0.1:$socks" "http://127.0.0.1:1/" >"$dir/refused.log" 2>&1 || refused=$?
echo "7. policy      http://127.0.0.1:1/ is not on the list: curl exit $refused (refused by the server, never dialled)"
if [ "$refused" -ne 97 ]; then
  echo "demo: expected curl to report a SOCKS5 refusal (97)" >&2
  exit 1
fi
printf '   took %d ms after the build\n' $((($(date +%s%N) - started) / 1000000))

if [ "${CHECK:-}" = 1 ]; then exit 0; fi
cat <<TRY

The mesh stays up until you press Ctrl-C. Try it:
  curl --proxy socks5h://127.0.0.1:$socks $url
  chromium --proxy-server=socks5://127.0.0.1:$socks --proxy-bypass-list='<-loopback>' $url
Its files are in $dir/mesh
TRY
wait "${pids[0]}"
