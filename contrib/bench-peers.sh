#!/usr/bin/env bash
# Measures the agent beside Redis and nginx on this machine: the same load generator, the same run, the servers taking
# turns. Prints a table with the ratio to Redis (larder / redis), one of images with the ratio to nginx's proxy cache, and
# whether the targets are met.
set -euo pipefail

usage() {
    cat <<'EOF'
usage: contrib/bench-peers.sh [option ...]
  --quick            shorter rounds and a tenth of the images: under two minutes, not counting the build
  --json FILE        also write the figures, and every report behind them, as JSON
  --check            exit with 1 when a target is missed
  --without-agent    only Redis and the floor: what this machine can do
  --no-build         take what the last build left
  --larderd FILE     measure this program instead of building one
  --directory DIR    where the servers keep their files (default: /var/tmp). Durable figures are those of its disk.
EOF
}

quick=false check=false build=true with_agent=true json='' larderd='' directory=/var/tmp
while (($#)); do
    case $1 in
        --quick) quick=true ;;
        --check) check=true ;;
        --no-build) build=false ;;
        --without-agent) with_agent=false ;;
        --json) json=${2:?--json needs a file} && shift ;;
        --larderd) larderd=${2:?--larderd needs a file} && shift ;;
        --directory) directory=${2:?--directory needs a directory} && shift ;;
        -h | --help) usage && exit ;;
        *) echo "bench-peers: unknown option $1" >&2 && usage >&2 && exit 2 ;;
    esac
    shift
done

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=contrib/release-flags.sh
source "$top/contrib/release-flags.sh"

work='' store='' pids=()
stop() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    [[ -z $work ]] || rm -rf "$work"
    [[ -z $store ]] || rm -rf "$store"
}
trap stop EXIT
trap 'exit 130' INT TERM

fail() {
    echo "bench-peers: $*" >&2
    exit 1
}

# compile PRODUCT: builds one product; shows what the compiler said only if it failed.
compile() {
    swift build --package-path "$top" "${release_flags[@]}" --product "$1" >"$work/build.log" 2>&1 ||
        { tail -n 40 "$work/build.log" >&2 && fail "cannot build $1"; }
}

# start NAME SOCKET FLAG COMMAND...: starts a server and waits until it answers; FLAG names its socket to larder-bench.
start() {
    local name=$1 socket=$2 flag=$3 deadline=$((SECONDS + 20))
    shift 3
    "$@" >"$work/$name.log" 2>&1 &
    pids+=($!)
    until "$bench" get "$flag" "$socket" --connections 1 --requests 1 --rounds 1 >"$work/probe.log" 2>&1; do
        if ! kill -0 "${pids[-1]}" 2>/dev/null || ((SECONDS > deadline)); then
            tail -n 20 "$work/$name.log" "$work/probe.log" >&2
            fail "$name does not answer at $socket"
        fi
        sleep 0.05
    done
}

# measure NAME ARGUMENT...: runs larder-bench and keeps its report.
measure() {
    local name=$1
    shift
    "$bench" "$@" --json >"$work/reports/$name.json" 2>"$work/$name.err" ||
        { cat "$work/$name.err" >&2 && fail "the measurement \"$name\" failed"; }
}

# start_nginx: starts nginx as the origin of images, at $origin, and as a proxy cache before it, at a Unix socket.
start_nginx() {
    local port
    # nginx cannot listen on "any free port".
    for port in $(shuf -i 20000-32000 -n 10); do
        cat >"$work/nginx/nginx.conf" <<EOF
daemon off; master_process off; pid nginx.pid; error_log stderr notice;
events { worker_connections 1024; }
http {
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; types { image/png png; }
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    proxy_cache_path $work/nginx/cache levels=1:2 keys_zone=images:10m max_size=1g inactive=1h use_temp_path=off;
    server {
        listen 127.0.0.1:$port;
        root $work/nginx/www;
        add_header Cache-Control max-age=86400;
        location /drawn/ {
            default_type image/svg+xml;
            return 200 '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"><!-- \$uri --></svg>';
        }
    }
    server {
        listen unix:$work/nginx.sock;
        location / {
            proxy_pass http://127.0.0.1:$port; proxy_cache images; proxy_cache_valid 200 1h; proxy_cache_lock on;
        }
    }
}
EOF
        rm -f "$work/nginx.sock"
        : >"$work/nginx.log"
        PATH=$PATH:/usr/sbin nginx -p "$work/nginx" -c nginx.conf -e stderr >"$work/nginx.log" 2>&1 &
        pids+=($!)
        # It says so after its sockets are open.
        until grep -q 'using the' "$work/nginx.log"; do
            kill -0 "${pids[-1]}" 2>/dev/null || continue 2
            sleep 0.05
        done
        origin=http://127.0.0.1:$port
        return
    done
    tail -n 20 "$work/nginx.log" >&2
    fail "nginx does not start"
}

mkdir -p "$directory"
work=$(mktemp -d "$directory/larder-peers.XXXXXX")
mkdir "$work/reports" "$work/redis" "$work/redis-durable" "$work/agent" "$work/nginx" "$work/nginx/www"
# Many small files, each of them synced: what is measured with them is no matter of the disk.
store=$(mktemp -d /dev/shm/larder-peers.XXXXXX 2>/dev/null || mktemp -d "$work/store.XXXXXX")
"$top/contrib/install-needs.sh" redis-server nginx-light jq gcc libc6-dev libsystemd-dev libsqlite3-dev pkg-config
ulimit -n "$(ulimit -Hn)"

if $build; then
    compile larder-bench
    if $with_agent && [[ -z $larderd ]]; then compile larderd; fi
fi
binaries=$(swift build --package-path "$top" "${release_flags[@]}" --show-bin-path)
bench=$binaries/larder-bench
[[ -x $bench ]] || fail "no $bench: leave out --no-build"
cc -O2 -Wall -o "$work/floor" "$top/contrib/benchmarks/floor/floor.c"

redis_flags=(--port 0 --save "" --loglevel warning)
start redis "$work/redis.sock" --redis-socket \
    redis-server "${redis_flags[@]}" --unixsocket "$work/redis.sock" --dir "$work/redis" --appendonly no
start redis-durable "$work/redis-durable.sock" --redis-socket \
    redis-server "${redis_flags[@]}" --unixsocket "$work/redis-durable.sock" --dir "$work/redis-durable" \
    --appendonly yes --appendfsync always
start floor "$work/floor.sock" --floor-socket "$work/floor" "$work/floor.sock"
start floor-durable "$work/floor-durable.sock" --floor-socket \
    "$work/floor" "$work/floor-durable.sock" "$work/floor.journal"
agent=()
if $with_agent; then
    cat >"$work/agent/settings.json5" <<EOF
{
  socket: { path: "$work/larder.sock" },
  state: { directory: "$work/agent/state" },
  cache: { directory: "$work/agent/cache" },
  images: { allowNetworks: ["127.0.0.1/32"] },
  namespaces: { default: { durability: "full" }, relaxed: { durability: "relaxed" } },
}
EOF
    agent=(--socket "$work/larder.sock")
    larderd=${larderd:-$binaries/larderd}
    start larderd "$work/larder.sock" --socket "$larderd" --settings "$work/agent/settings.json5"
fi

both=("${agent[@]}" --redis-socket "$work/redis.sock" --floor-socket "$work/floor.sock")
durable=("${agent[@]}" --redis-socket "$work/redis-durable.sock" --floor-socket "$work/floor-durable.sock")
rounds=5 seconds=2 publications=400
images=100000 evicted=10000
if $quick; then rounds=3 seconds=0.7 publications=100 images=10000 evicted=1000; fi

# Memory first: it is what a server needs that has just been started.
measure idle idle "${both[@]}" --subscribers 1000
measure get-1 get "${both[@]}" --connections 50 --depth 1 --rounds "$rounds" --seconds "$seconds"
measure get-16 get "${both[@]}" --connections 50 --depth 16 --rounds "$rounds" --seconds "$seconds"
measure fanout-relaxed fanout "${both[@]}" --subscribers 1000 --rounds "$publications"
measure fanout-durable fanout "${durable[@]}" --subscribers 1000 --rounds "$publications" --durable
measure connect-1 connect "${both[@]}" --rounds "$rounds" --seconds "$seconds"
measure connect-16 connect "${both[@]}" --rounds "$rounds" --seconds "$seconds" --parallel 16

if $with_agent; then
    start_nginx
    for size in 50000 500000 5000000; do
        "$bench" image make --directory "$work/nginx/www/$size" --bytes "$size"
        measure "image-delivery-$size" image delivery "${agent[@]}" --nginx-socket "$work/nginx.sock" \
            --origin "$origin" --path "/$size" --bytes "$size" --rounds "$rounds" --seconds "$seconds"
    done
    measure image-rate image rate "${agent[@]}" --url "$origin/50000/0.png" --rounds "$rounds" --seconds "$seconds"
    "$bench" image fill --larderd "$larderd" --directory "$store" --origin "$origin/drawn/" --count "$images" \
        >"$work/fill.log" 2>&1 || { cat "$work/fill.log" >&2 && fail "cannot fill a cache with $images images"; }
    measure image-start image start --larderd "$larderd" --directory "$store" --rounds "$rounds"
    measure image-evict image evict --larderd "$larderd" --directory "$store" --count "$evicted"
fi

# One row for each figure: what it is, where it stands in which report, and its target.
# shellcheck disable=SC2016
judged='
def judged($target):
  .target = $target
  | .met = (if $target == null or .larder == null then null
            else (if $target.of == "ratio" then .ratio else .larder end) as $x
              | if $x == null then null
                elif $target.atLeast then $x >= $target.atLeast
                elif $target.atMost then $x <= $target.atMost else $x < $target.below end end);'
# shellcheck disable=SC2016
rows='
def row($name; $unit; $report; $key; $target):
  .[$report] as $r
  | { name: $name, unit: $unit, larder: $r.servers.larder.metrics[$key], redis: $r.servers.redis.metrics[$key],
      floor: $r.servers.floor.metrics[$key] }
  | .ratio = (if $r.ratio.metric == $key and $r.ratio.numerator == "larder" then $r.ratio.median
              elif .larder and .redis and .redis > 0 then .larder / .redis else null end)
  | judged($target);
[ row("get, 50 connections, depth 1"; "requests/s"; "get-1"; "requestsPerSecond"; {of: "ratio", atLeast: 0.9}),
  row("get, 50 connections, depth 1, p99"; "µs"; "get-1"; "p99Microseconds"; null),
  row("get, 50 connections, depth 16"; "requests/s"; "get-16"; "requestsPerSecond"; {of: "ratio", atLeast: 1}),
  row("relaxed publication to the last of 1,000"; "µs"; "fanout-relaxed"; "medianMicroseconds"; {of: "ratio", atMost: 1}),
  row("durable publication to the last of 1,000"; "µs"; "fanout-durable"; "medianMicroseconds"; {of: "ratio", atMost: 1}),
  row("connect, get, close, one at a time"; "per s"; "connect-1"; "connectionsPerSecond"; null),
  row("connect, get, close, 16 at a time"; "per s"; "connect-16"; "connectionsPerSecond"; null),
  row("resident memory at rest"; "MB"; "idle"; "residentMegabytes"; {of: "larder", below: 24}),
  row("memory of an idle subscriber"; "bytes"; "idle"; "bytesPerSubscriber"; null)
]'
# The same for images, each beside what it is compared with. Of reading a file and mapping it the better one counts.
# shellcheck disable=SC2016
image_rows='
def size: if . >= 1000000 then "\(. / 1000000) MB" else "\(. / 1000) KB" end;
def delivery($bytes; $way; $target):
  .["image-delivery-\($bytes)"].servers as $servers
  | ([$servers["\($way)Read", "\($way)Map"].metrics] | max_by(.ratioToNginx)) as $best
  | { name: "\($bytes | size) into memory by \($way)", unit: "MB/s", larder: $best.megabytesPerSecond,
      peer: "nginx", other: $servers.nginx.metrics.megabytesPerSecond, ratio: $best.ratioToNginx }
  | judged({of: "ratio", atLeast: $target});
def start($name; $unit; $key; $most):
  .["image-start"].servers as $servers
  | { name: $name, unit: $unit, larder: $servers.full.metrics[$key], peer: "none held",
      other: $servers.empty.metrics[$key], ratio: null }
  | judged({of: "larder", atMost: $most});
if .["image-rate"] == null then [] else
[ ( .["image-rate"]
    | { name: "image.get, held, 50 connections", unit: "requests/s",
        larder: .servers["image.get"].metrics.requestsPerSecond, peer: "config.get",
        other: .servers["config.get"].metrics.requestsPerSecond, ratio: .ratio.median }
    | judged({of: "ratio", atLeast: 0.6})),
  delivery(50000; "path", "descriptor"; 1.5), delivery(500000; "path", "descriptor"; 4),
  delivery(5000000; "path", "descriptor"; 8),
  start("ready with \(.["image-start"].servers.full.metrics.images) images"; "ms"; "readyMilliseconds"; 500),
  start("memory for them"; "MB"; "moreMegabytes"; 60),
  ( .["image-evict"]
    | { name: "p99 of config.get, evicting \(.parameters.count)", unit: "ms more",
        larder: .servers.evicting.metrics.addedMilliseconds, peer: "usual p99",
        other: (.servers.usual.metrics.p99Microseconds / 1000), ratio: null }
    | judged({of: "larder", atMost: 2}))
] end'
reports=$(for file in "$work"/reports/*.json; do jq --arg name "$(basename "$file" .json)" '{($name): .}' "$file"; done | jq -s add)
summary=$(jq -n \
    --arg nginx "$(PATH=$PATH:/usr/sbin nginx -v 2>&1 | sed -n 's|.*nginx/||p')" \
    --argjson reports "$reports" --argjson quick "$quick" --argjson processors "$(nproc)" \
    --arg model "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" --arg kernel "$(uname -r)" \
    --arg filesystem "$(stat -f -c %T "$work")" --arg redis "$(redis-server --version | sed -n 's/.* v=\([^ ]*\).*/\1/p')" \
    --arg date "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$judged"'
    { date: $date, quick: $quick,
      machine: {processors: $processors, model: $model, kernel: $kernel, filesystem: $filesystem, redis: $redis,
        nginx: $nginx},
      rows: ($reports | '"$rows"'), images: ($reports | '"$image_rows"'), reports: $reports }')
[[ -z $json ]] || printf '%s\n' "$summary" >"$json"

jq -r '"\(.machine.processors) × \(.machine.model), Linux \(.machine.kernel), Redis \(.machine.redis), nginx \(.machine.nginx), files on \(.machine.filesystem)"' \
    <<<"$summary"
jq -r '
    def grouped: tostring | [match("^-?[0-9]+").string, (match("\\.[0-9]+$").string // "")] as [$whole, $rest]
        | ($whole | [while(length > 0; .[:-3]) | .[-3:]] | reverse | join(",")) + $rest;
    def figure: if . == null then "-" elif . >= 100 then round | grouped else . * 10 | round / 10 | tostring end;
    def ratio: if . == null then "-" else . * 1000 | round / 1000 | tostring end;
    def target:
        if . == null then "" elif .atLeast then "≥ \(.atLeast)" elif .atMost then "≤ \(.atMost)" else "< \(.below) MB" end;
    def verdict: if .met == null then "" elif .met then "met" else "MISSED" end;
    def left($width): . + " " * ($width - length);
    def right($width): " " * ($width - length) + .;
    def line: "\(.[0] | left(41)) \(.[1] | left(10))\(.[2:6] | map(right(12)) | join(""))  \(.[6] | left(8)) \(.[7])";
    (["figure", "unit", "larder", "redis", "floor", "ratio", "target", ""] | line),
    (.rows[] | [.name, .unit, (.larder, .redis, .floor | figure), (.ratio | ratio), (.target | target), verdict] | line),
    (if .images == [] then empty
     else "", (["images", "unit", "larder", "beside it", "which is", "ratio", "target", ""] | line) end),
    (.images[] | [.name, .unit, (.larder | figure), (.other | figure), .peer, (.ratio | ratio), (.target | target),
        verdict] | line)' <<<"$summary"
jq -r '.reports | to_entries[] | .key as $name | .value.notes[] | "note, \($name): \(.)"' <<<"$summary"

if $check && jq -e '[.rows[], .images[] | select(.met == false)] | length > 0' <<<"$summary" >/dev/null; then exit 1; fi
