#!/usr/bin/env bash
# Builds Larder, starts an agent in a temporary directory and shows what it does:
#
# - sets, reads, explains and watches a value, and waits for one
# - evaluates a feature flag that is on for a share of the users
# - renders a file from the configuration, and runs a program with it
# - follows a value in a Python program
# - refreshes a namespace from nginx, and rejects a document that violates its schema
# - downloads an image once for ten processes, and serves it while nginx is down
#
#   contrib/quickstart.sh          show everything, then stop all programs
#   contrib/quickstart.sh --keep   leave the agent and nginx running, and print how to reach them
#
# Exits with 0 only if each step had the expected result.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=no
case "${1:-}" in
  "") ;;
  --keep) keep=yes ;;
  -h | --help)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
  *)
    echo "quickstart.sh: unknown argument '$1'; try --help" >&2
    exit 2
    ;;
esac

contrib/install-needs.sh libsystemd-dev libsqlite3-dev libpcre2-dev nettle-dev zlib1g-dev pkg-config socat nginx-light python3

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
show() {
  printf '%s$ %s%s\n' "$bold" "$*" "$plain"
  eval "$*"
}
# expect WHAT ACTUAL EXPECTED: exits with an error message about WHAT if ACTUAL is not EXPECTED.
expect() {
  [ "$2" = "$3" ] && return
  printf '\nquickstart.sh: %s: expected %s, got %s\n' "$1" "$3" "$2" >&2
  exit 1
}

say "Building (the first time takes some minutes)"
export SWIFT_DETERMINISTIC_HASHING=1 # as contrib/test.sh does, so that both use the same build
swift build --product larderd 2>&1 | tail -n 1

dir=$(mktemp -d -t larder-quickstart.XXXXXX)
# Both names refer to one program; as `larder` it is the command line.
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

# --- the origin: nginx on a free loopback port
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$dir/origin/www" "$dir/origin/tmp"
chmod 755 "$dir" "$dir/origin" "$dir/origin/www"
printf '{"version": 1, "checkout": {"enabled": false}}\n' >"$dir/origin/www/shop.json"
contrib/test_origin.py 64 64 >"$dir/origin/www/logo.png"
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
cat >"$dir/shop.schema.json" <<JSON
{"properties": {"checkout": {"properties": {"enabled": {"type": "boolean"}}}}}
JSON
cat >"$dir/larder.json" <<JSON
{
  images: { allowNetworks: ["127.0.0.0/8"] }, // origins on this machine are refused by default
  namespaces: {
    default: { flags: { member: "flags" } },
    shop: {
      remote: { http: { url: "http://127.0.0.1:$port/shop.json", intervalSeconds: 3600 } },
      schema: { path: "$dir/shop.schema.json" },
    },
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

say "Read it over the socket with socat"
show "printf '{\"id\":1,\"method\":\"config.get\",\"params\":{\"path\":\"search.limit\"}}' | socat - UNIX-CONNECT:\$LARDER_SOCKET"
reply=$(printf '{"id":1,"method":"config.get","params":{"path":"search.limit"}}' | socat - "UNIX-CONNECT:$LARDER_SOCKET")
case "$reply" in *'"value":20'*) ;; *) expect "socat" "$reply" 'a reply with "value":20' ;; esac

say "Watch it while it changes"
printf '%s$ larder watch search.limit --count 3 &%s\n' "$bold" "$plain"
larder watch search.limit --count 3 >"$dir/watch.out" &
watch=$!
# The watch first prints the current value, then each change.
for _ in $(seq 100); do [ -s "$dir/watch.out" ] && break; sleep 0.1; done
show "larder set search.limit 30"
for _ in $(seq 100); do [ "$(wc -l <"$dir/watch.out")" -ge 2 ] && break; sleep 0.1; done
show "larder set search.limit 40"
wait "$watch"
watch=''
sed 's/^/watch: /' "$dir/watch.out"
expect "watch" "$(paste -sd' ' "$dir/watch.out")" "20 30 40"

say "Show which layer the value comes from, and who set it"
show "larder explain search.limit"
expect "the winning layer" "$(larder explain search.limit --json | grep -o '"winner":"[a-z]*"')" '"winner":"override"'

say "Switch a feature on for a tenth of the users, and for everyone at example.org"
cat >"$dir/new-search.json" <<'JSON'
{
  "state": "ENABLED",
  "variants": {"on": true, "off": false},
  "defaultVariant": "off",
  "targeting": {
    "if": [{"ends_with": [{"var": "email"}, "@example.org"]}, "on", {"fractional": [["on", 10], ["off", 90]]}]
  }
}
JSON
show "cat $dir/new-search.json"
show "larder set flags.new-search --value-from $dir/new-search.json"
show "larder flag simulate new-search"
users=$(larder flag simulate new-search --json | grep -o '"on":[0-9]*' | cut -d: -f2)
[ "$users" -gt 9500 ] && [ "$users" -lt 10500 ] || expect "users with the feature, of 100,000" "$users" "about 10000"
show "larder flag evaluate new-search --context '{\"email\": \"ann@example.org\"}'"
expect "the flag" "$(larder flag evaluate new-search --context '{"email": "ann@example.org"}')" true

say "Wait for a value"
printf '%s$ larder wait search.enabled=true --timeout 30s &%s\n' "$bold" "$plain"
larder wait search.enabled=true --timeout 30s >"$dir/wait.out" &
wait=$!
show "larder set search.enabled true"
wait "$wait"
sed 's/^/wait: /' "$dir/wait.out"
expect "the awaited value" "$(cat "$dir/wait.out")" true

say "Render a file in another format, and check it before the old one is replaced"
printf 'limit = {{search.limit}}\nenabled = {{search.enabled}}\n' >"$dir/search.conf.mustache"
show "larder render $dir/search.conf.mustache $dir/search.conf --check 'grep -q limit {}' --exec 'echo reloaded'"
show "cat $dir/search.conf"
expect "the rendered file" "$(head -n 1 "$dir/search.conf")" "limit = 40"

say "Run a program with the configuration in its environment, and restart it on changes"
printf '%s$ larder exec --watch --path search -- sh -c '\''echo "limit $LIMIT"; exec sleep 600'\'' &%s\n' "$bold" "$plain"
# shellcheck disable=SC2016 # expanded by the shell that the command starts
larder exec --watch --path search -- sh -c 'echo "limit $LIMIT"; exec sleep 600' >"$dir/exec.out" &
watch=$!
for _ in $(seq 100); do [ -s "$dir/exec.out" ] && break; sleep 0.1; done
show "larder set search.limit 50"
for _ in $(seq 100); do [ "$(wc -l <"$dir/exec.out")" -ge 2 ] && break; sleep 0.1; done
kill "$watch"
wait "$watch" || expect "the exit status after SIGTERM" $? 143
watch=''
sed 's/^/exec: /' "$dir/exec.out"
expect "the output of the program" "$(paste -sd' ' "$dir/exec.out")" "limit 40 limit 50"
show "larder history --limit 3"

say "Follow the value in a Python program that uses only the standard library"
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
expect "the output of the subscriber" "$(paste -sd' ' "$dir/subscriber.out")" "limit 50 limit 55 limit 50"

say "Read the configuration from a plain file"
for _ in $(seq 100); do grep -q '"limit":50' "$dir/current/default.json" && break; sleep 0.1; done
show "cat $dir/current/default.json"
expect "the value in the plain file" "$(grep -c '"limit":50' "$dir/current/default.json")" 1

say "Use a namespace whose remote source is nginx"
larder refresh --namespace shop >/dev/null # the agent starts without waiting for the first response
show "larder get --namespace shop checkout.enabled"
expect "the value in the first response" "$(larder get --namespace shop checkout.enabled)" false
show "larder refresh --namespace shop"
show "tail -n 1 $dir/origin/access.log"
expect "the status of the second response" "$(tail -n 1 "$dir/origin/access.log" | cut -d' ' -f1)" 304
printf '{"version": 2, "checkout": {"enabled": true}}\n' >"$dir/origin/www/shop.json"
show "larder refresh --namespace shop"
show "larder get --namespace shop checkout.enabled"
expect "the value in the changed response" "$(larder get --namespace shop checkout.enabled)" true

say "A document that violates the schema is rejected, and the last good one stays"
show "cat $dir/shop.schema.json"
printf '{"version": 3, "checkout": {"enabled": "yes"}}\n' >"$dir/origin/www/shop.json"
printf '%s$ larder refresh --namespace shop%s\n' "$bold" "$plain"
if larder refresh --namespace shop; then expect "the refresh of an invalid document" "success" "a failure"; fi
show "larder get --namespace shop checkout.enabled"
expect "the last good value" "$(larder get --namespace shop checkout.enabled)" true
printf '{"version": 4, "checkout": {"enabled": true}}\n' >"$dir/origin/www/shop.json"
show "larder refresh --namespace shop"

say "Ten processes request one image: Larder downloads it once, and all get the same file"
image=http://127.0.0.1:$port/logo.png
show "seq 10 | xargs -P 10 -I{} larder image get $image | sort | uniq -c"
show "grep logo.png $dir/origin/access.log"
expect "the number of requests to nginx" "$(grep -c logo.png "$dir/origin/access.log")" 1
show "larder image explain $image"

say "Stop nginx: the last good configuration and the image stay available"
kill "$origin"
wait "$origin" 2>/dev/null || true
origin=''
printf '%s$ larder refresh --namespace shop%s\n' "$bold" "$plain"
if larder refresh --namespace shop; then expect "the refresh without nginx" "success" "a failure"; fi
show "larder get --namespace shop checkout.enabled"
expect "the last good value" "$(larder get --namespace shop checkout.enabled)" true
show "larder image get $image -o $dir/logo.png"
show "cmp $dir/logo.png $dir/origin/www/logo.png && echo 'identical'"

say "Restart the agent: no acknowledged change is lost"
kill "$agent"
wait "$agent"
start_agent
show "larder get search.limit"
expect "the value after a restart" "$(larder get search.limit)" 50
show "larder status --namespace shop"

if [ "$keep" = yes ]; then
  start_origin
  say "The agent and nginx are still running"
  cat <<TEXT
export LARDER_SOCKET=$LARDER_SOCKET
export PATH=$dir/bin:\$PATH
larder status                    # larder --help lists the other commands
kill $agent $origin; rm -r $dir   # to stop both and remove their files
TEXT
  trap - EXIT
  disown "$agent" "$origin"
  exit 0
fi
say "Done: every step had the expected result"
