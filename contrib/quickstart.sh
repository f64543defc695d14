#!/usr/bin/env bash
# Builds Larder, starts an agent in a temporary directory, and shows its main job on real input: a value set and read,
# explained, watched and waited for, followed by a program in Python, a file rendered from it, a program run with it, a
# namespace refreshed from a real nginx, and an image fetched once for ten processes and served without its origin.
#
#   contrib/quickstart.sh          show it, then stop everything
#   contrib/quickstart.sh --keep   leave the agent and its origin running, and say how to reach them
#
# The exit status is 0 only if all of it happened.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=no
case "${1:-}" in
  "") ;;
  --keep) keep=yes ;;
  -h | --help)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *)
    echo "quickstart.sh: unknown argument '$1'; try --help" >&2
    exit 2
    ;;
esac

contrib/install-needs.sh libsystemd-dev libsqlite3-dev pkg-config socat nginx-light python3

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
show() {
  printf '%s$ %s%s\n' "$bold" "$*" "$plain"
  eval "$*"
}
# expect WHAT ACTUAL EXPECTED
expect() {
  [ "$2" = "$3" ] && return
  printf '\nquickstart.sh: %s: expected %s, got %s\n' "$1" "$3" "$2" >&2
  exit 1
}

say "Building (the first time takes some minutes)"
swift build --product larderd 2>&1 | tail -n 1

dir=$(mktemp -d -t larder-quickstart.XXXXXX)
# One program: under the name of larder it is the command line.
mkdir "$dir/bin"
for name in larderd larder; do ln -s "$(swift build --show-bin-path)/larderd" "$dir/bin/$name"; done
export PATH="$dir/bin:$PATH"
export LARDER_SOCKET="$dir/larder.sock"
agent='' origin='' watch='' subscriber=''
stop() {
  local status=$?
  for pid in $watch $subscriber $agent $origin; do kill "$pid" 2>/dev/null || true; done
  for pid in $watch $subscriber $agent $origin; do wait "$pid" 2>/dev/null || true; done
  if [ "$status" -ne 0 ] && [ -s "$dir/larderd.log" ]; then
    echo "--- larderd.log" >&2
    tail -n 20 "$dir/larderd.log" >&2
  fi
  rm -rf "$dir"
  exit "$status"
}
trap stop EXIT

# --- a real origin: nginx on the loopback, on a port that the system says is free
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$dir/origin/www" "$dir/origin/tmp"
chmod 755 "$dir" "$dir/origin" "$dir/origin/www"
printf '{"version": 1, "checkout": {"enabled": false}}\n' >"$dir/origin/www/shop.json"
python3 - "$dir/origin/www/logo.png" <<'PNG'
import struct, sys, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

side = 64
rows = b"".join(b"\0" + bytes(value for x in range(side) for value in (4 * x, 4 * y, 128)) for y in range(side))
with open(sys.argv[1], "wb") as file:
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    file.write(b"\x89PNG\r\n\x1a\n")
    file.write(chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PNG
cat >"$dir/origin/nginx.conf" <<CONF
daemon off;
pid $dir/origin/nginx.pid;
error_log $dir/origin/error.log;
events {}
http {
  log_format short '\$status \$request etag="\$http_if_none_match"';
  access_log $dir/origin/access.log short;
  client_body_temp_path $dir/origin/tmp; proxy_temp_path $dir/origin/tmp; fastcgi_temp_path $dir/origin/tmp;
  uwsgi_temp_path $dir/origin/tmp; scgi_temp_path $dir/origin/tmp;
  server {
    listen 127.0.0.1:$port;
    root $dir/origin/www;
    location /logo.png { types { image/png png; } expires 1h; }
  }
}
CONF
start_origin() {
  /usr/sbin/nginx -p "$dir/origin" -c "$dir/origin/nginx.conf" 2>/dev/null &
  origin=$!
  for _ in $(seq 100); do
    (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    kill -0 "$origin" 2>/dev/null || break
    sleep 0.1
  done
  echo "quickstart.sh: nginx did not start:" >&2
  cat "$dir/origin/error.log" >&2
  exit 1
}
start_origin

# --- the agent
cat >"$dir/larder.json" <<JSON
{
  images: { allowNetworks: ["127.0.0.0/8"] }, // an origin on this machine is refused otherwise
  namespaces: {
    default: {},
    shop: { remote: { http: { url: "http://127.0.0.1:$port/shop.json", intervalSeconds: 3600 } } },
  },
}
JSON
start_agent() {
  larderd --settings "$dir/larder.json" --socket "$LARDER_SOCKET" \
    --state-directory "$dir/state" --cache-directory "$dir/cache" 2>>"$dir/larderd.log" &
  agent=$!
  for _ in $(seq 100); do
    larder ping >/dev/null 2>&1 && return
    kill -0 "$agent" 2>/dev/null || break
    sleep 0.1
  done
  echo "quickstart.sh: the agent did not start" >&2
  exit 1
}
start_agent

say "An agent is running. Set a value and read it"
show "larder set search.limit 20"
show "larder get search.limit"
expect "larder get" "$(larder get search.limit)" 20

say "The same over the socket, with nothing but socat"
show "printf '{\"id\":1,\"method\":\"config.get\",\"params\":{\"path\":\"search.limit\"}}' | socat - UNIX-CONNECT:\$LARDER_SOCKET"
reply=$(printf '{"id":1,"method":"config.get","params":{"path":"search.limit"}}' | socat - "UNIX-CONNECT:$LARDER_SOCKET")
case "$reply" in *'"value":20'*) ;; *) expect "socat" "$reply" 'a reply with "value":20' ;; esac

say "Watch it while it changes"
printf '%s$ larder watch search.limit --count 3 &%s\n' "$bold" "$plain"
larder watch search.limit --count 3 >"$dir/watch.out" &
watch=$!
# The watch prints what is current first; the changes come after that.
for _ in $(seq 100); do [ -s "$dir/watch.out" ] && break; sleep 0.1; done
show "larder set search.limit 30"
for _ in $(seq 100); do [ "$(wc -l <"$dir/watch.out")" -ge 2 ] && break; sleep 0.1; done
show "larder set search.limit 40"
wait "$watch"
watch=''
sed 's/^/watch: /' "$dir/watch.out"
expect "watch" "$(paste -sd' ' "$dir/watch.out")" "20 30 40"

say "Which layer says so, and who set it"
show "larder explain search.limit"
expect "the layer that wins" "$(larder explain search.limit --json | grep -o '"winner":"[a-z]*"')" '"winner":"override"'

say "Wait until a value is there"
printf '%s$ larder wait search.enabled=true --timeout 30s &%s\n' "$bold" "$plain"
larder wait search.enabled=true --timeout 30s >"$dir/wait.out" &
wait=$!
show "larder set search.enabled true"
wait "$wait"
sed 's/^/wait: /' "$dir/wait.out"
expect "what was waited for" "$(cat "$dir/wait.out")" true

say "A file for a program that reads its own format, checked before it is replaced"
printf 'limit = {{search.limit}}\nenabled = {{search.enabled}}\n' >"$dir/search.conf.mustache"
show "larder render $dir/search.conf.mustache $dir/search.conf --check 'grep -q limit {}' --exec 'echo reloaded'"
show "cat $dir/search.conf"
expect "the rendered file" "$(head -n 1 "$dir/search.conf")" "limit = 40"

say "A program with the configuration as its environment, started again when it changes"
printf '%s$ larder exec --watch --path search -- sh -c '\''echo "limit $LIMIT"; exec sleep 600'\'' &%s\n' "$bold" "$plain"
# shellcheck disable=SC2016 # the program's shell is to read it
larder exec --watch --path search -- sh -c 'echo "limit $LIMIT"; exec sleep 600' >"$dir/exec.out" &
watch=$!
for _ in $(seq 100); do [ -s "$dir/exec.out" ] && break; sleep 0.1; done
show "larder set search.limit 50"
for _ in $(seq 100); do [ "$(wc -l <"$dir/exec.out")" -ge 2 ] && break; sleep 0.1; done
kill "$watch"
wait "$watch" || expect "the exit status of a program that SIGTERM ended" $? 143
watch=''
sed 's/^/exec: /' "$dir/exec.out"
expect "what the program saw" "$(paste -sd' ' "$dir/exec.out")" "limit 40 limit 50"
show "larder history --limit 3"

say "A program that follows the value, with nothing but Python's standard library"
cat >"$dir/subscriber.py" <<'PYTHON'
import json, os, socket

agent = socket.socket(socket.AF_UNIX)
agent.connect(os.environ["LARDER_SOCKET"])
agent.sendall(b'{"id":1,"method":"config.subscribe","params":{"path":"search.limit"}}\n')
for line in agent.makefile(encoding="utf-8"):
    message = json.loads(line)
    if message.get("method") == "config.event":
        print("limit", message["params"]["value"], flush=True)
PYTHON
show "cat $dir/subscriber.py"
printf '%s$ python3 %s/subscriber.py &%s\n' "$bold" "$dir" "$plain"
python3 "$dir/subscriber.py" >"$dir/subscriber.out" &
subscriber=$!
for _ in $(seq 100); do [ -s "$dir/subscriber.out" ] && break; sleep 0.1; done
show "larder set search.limit 55"
for _ in $(seq 100); do [ "$(wc -l <"$dir/subscriber.out")" -ge 2 ] && break; sleep 0.1; done
show "larder set search.limit 50"
for _ in $(seq 100); do [ "$(wc -l <"$dir/subscriber.out")" -ge 3 ] && break; sleep 0.1; done
kill "$subscriber"
wait "$subscriber" || true
subscriber=''
sed 's/^/subscriber: /' "$dir/subscriber.out"
expect "what the subscriber saw" "$(paste -sd' ' "$dir/subscriber.out")" "limit 50 limit 55 limit 50"

say "And a plain copy for whoever only knows files"
for _ in $(seq 100); do grep -q '"limit":50' "$dir/current/default.json" && break; sleep 0.1; done
show "cat $dir/current/default.json"
expect "the plain copy" "$(grep -c '"limit":50' "$dir/current/default.json")" 1

say "A namespace that comes from a real origin (nginx)"
larder refresh --namespace shop >/dev/null # the agent did not wait for the first answer, but what follows must
show "larder get --namespace shop checkout.enabled"
expect "the first answer of nginx" "$(larder get --namespace shop checkout.enabled)" false
show "larder refresh --namespace shop"
show "tail -n 1 $dir/origin/access.log"
expect "nginx's answer to the second request" "$(tail -n 1 "$dir/origin/access.log" | cut -d' ' -f1)" 304
printf '{"version": 2, "checkout": {"enabled": true}}\n' >"$dir/origin/www/shop.json"
show "larder refresh --namespace shop"
show "larder get --namespace shop checkout.enabled"
expect "the changed answer of nginx" "$(larder get --namespace shop checkout.enabled)" true

say "Ten processes ask for one image: nginx is asked once, and all get the same file"
image=http://127.0.0.1:$port/logo.png
show "seq 10 | xargs -P 10 -I{} larder image get $image | sort | uniq -c"
show "grep logo.png $dir/origin/access.log"
expect "the requests for the image that nginx had" "$(grep -c logo.png "$dir/origin/access.log")" 1
show "larder image why $image"

say "The origin goes away: the last good configuration and the image stay"
kill "$origin"
wait "$origin" 2>/dev/null || true
origin=''
printf '%s$ larder refresh --namespace shop%s\n' "$bold" "$plain"
if larder refresh --namespace shop; then expect "a refresh without an origin" "success" "a failure"; fi
show "larder get --namespace shop checkout.enabled"
expect "the last good value" "$(larder get --namespace shop checkout.enabled)" true
show "larder image get $image -o $dir/logo.png"
show "cmp $dir/logo.png $dir/origin/www/logo.png && echo 'the same bytes'"

say "A restart: nothing that was accepted is lost"
kill "$agent"
wait "$agent"
start_agent
show "larder get search.limit"
expect "the value after a restart" "$(larder get search.limit)" 50
show "larder status --namespace shop"

if [ "$keep" = yes ]; then
  start_origin
  say "The agent and its origin keep running"
  cat <<TEXT
export LARDER_SOCKET=$LARDER_SOCKET
export PATH=$dir/bin:\$PATH
larder status                    # or any other command; larder --help lists them
kill $agent $origin; rm -r $dir   # when you are done
TEXT
  trap - EXIT
  disown "$agent" "$origin"
  exit 0
fi
say "All of it happened"
