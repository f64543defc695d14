#!/usr/bin/env bash
# Compares the agent with Redis and etcd on this machine. One load generator measures all servers in alternation, in one run.
# Prints a table with the ratio of Larder to a peer for each figure, and whether that ratio meets its target.
set -euo pipefail

usage() {
    cat <<'EOF'
usage: contrib/bench-peers.sh [option ...]
  --quick            shorter rounds
  --only ROWS        measure only these rows, separated by commas:
                     get connect subtree publish durable etcd memory mapped images schemas
  --json FILE        also write the figures, and every report behind them, as JSON
  --check            exit with status 1 if a target is missed
  --no-build         use the programs of the last build
  --larderd FILE     measure this program instead of building one
  --directory DIR    directory for the servers' files (default: /var/tmp); durable figures measure its disk
EOF
}

only='' quick=false check=false build=true json='' larderd='' directory=/var/tmp
while (($#)); do
    case $1 in
        --quick) quick=true ;;
        --only) only=${2:?--only needs a list of rows} && shift ;;
        --check) check=true ;;
        --no-build) build=false ;;
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

work='' pids=()
declare -A names=()
stop() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    # Report a server that crashes during shutdown, too.
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null || (($? < 128 || $? == 143)) || { echo "bench-peers: ${names[$pid]} crashed" >&2 &&
            tail -n 40 "$work/${names[$pid]}.log" >&2; }
    done
    [[ -z $work ]] || rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

fail() {
    echo "bench-peers: $*" >&2
    exit 1
}

# wants ROW: succeeds if the row is to be measured.
wants() { [[ -z $only || ,$only, == *,$1,* ]]; }

# compile PRODUCT: builds a product of the package; prints the compiler's output only on failure.
compile() {
    swift build --package-path "$top" "${release_flags[@]}" --product "$1" >"$work/build.log" 2>&1 ||
        { tail -n 40 "$work/build.log" >&2 && fail "cannot build $1"; }
}

# start NAME SOCKET COMMAND...: starts a server and waits until it accepts connections.
start() {
    local name=$1 socket=$2 deadline=$((SECONDS + 20))
    shift 2
    (cd "$work" && exec "$@") >"$work/$name.log" 2>&1 &
    pids+=($!)
    names[$!]=$name
    until socat -u OPEN:/dev/null "UNIX-CONNECT:${socket//:/\\:}" >"$work/probe.log" 2>&1; do
        if ! kill -0 "${pids[-1]}" 2>/dev/null || ((SECONDS > deadline)); then
            tail -n 20 "$work/$name.log" "$work/probe.log" >&2
            fail "$name does not accept connections on $socket"
        fi
        sleep 0.05
    done
}

# measure NAME ARGUMENT...: runs larder-bench and saves its report.
measure() {
    local name=$1
    shift
    "$bench" "$@" >"$work/reports/$name.json" 2>"$work/$name.err" ||
        { cat "$work/$name.err" >&2 && fail "the measurement \"$name\" failed"; }
}

for row in ${only//,/ }; do
    [[ " get connect subtree publish durable etcd memory mapped images schemas " == *" $row "* ]] ||
        fail "unknown row \"$row\"; see --help"
done
mkdir -p "$directory"
work=$(mktemp -d "$directory/larder-peers.XXXXXX")
mkdir "$work"/{reports,redis,redis-durable,agent}
"$top/contrib/install-needs.sh" redis-server etcd-server socat python3 gcc libc6-dev libsystemd-dev libsqlite3-dev \
    libpcre2-dev nettle-dev zlib1g-dev pkg-config
ulimit -n "$(ulimit -Hn)"

if $build; then
    compile larder-bench
    if [[ -z $larderd ]]; then compile larderd; fi
fi
binaries=$(swift build --package-path "$top" "${release_flags[@]}" --show-bin-path)
bench=$binaries/larder-bench
[[ -x $bench ]] || fail "$bench does not exist; run without --no-build"
cc -O2 -Wall -o "$work/floor" "$top/contrib/benchmarks/floor/floor.c"
SECONDS=0

redis_flags=(--port 0 --save "" --loglevel warning --maxclients 10100)
start redis "$work/redis.sock" \
    redis-server "${redis_flags[@]}" --unixsocket "$work/redis.sock" --dir "$work/redis" --appendonly no
start redis-durable "$work/redis-durable.sock" \
    redis-server "${redis_flags[@]}" --unixsocket "$work/redis-durable.sock" --dir "$work/redis-durable" \
    --appendonly yes --appendfsync always
start floor "$work/floor.sock" "$work/floor" "$work/floor.sock"
start floor-durable "$work/floor-durable.sock" "$work/floor" "$work/floor-durable.sock" "$work/floor.journal"
if wants durable || wants etcd || wants memory; then
    # In unix://HOST:PORT, etcd takes HOST:PORT as the name of a socket in the current directory.
    start etcd "$work/etcd.sock:1" etcd --data-dir etcd --log-level warn \
        --listen-client-urls unix://etcd.sock:1 --advertise-client-urls unix://etcd.sock:1 \
        --listen-peer-urls unix://peer.sock:1 --initial-advertise-peer-urls http://localhost:2380 \
        --initial-cluster default=http://localhost:2380
fi
cat >"$work/agent/settings.json5" <<EOF
{
  socket: { path: "$work/larder.sock" },
  state: { directory: "$work/agent/state" },
  cache: { directory: "$work/agent/cache" },
  limits: { lineBytes: 33554432, connectionsPerUser: 16384 },
  namespaces: {
    default: { durability: "full" }, relaxed: { durability: "relaxed" },
    subtree: { durability: "relaxed" },
  },
}
EOF
agent=(--socket "$work/larder.sock")
larderd=$(realpath "${larderd:-$binaries/larderd}")
start larderd "$work/larder.sock" "$larderd" --settings "$work/agent/settings.json5"

both=("${agent[@]}" --redis-socket "$work/redis.sock" --floor-socket "$work/floor.sock")
durable=("${agent[@]}" --redis-socket "$work/redis-durable.sock" --floor-socket "$work/floor-durable.sock")
etcd=(--etcd-socket "$work/etcd.sock:1")
rounds=5 seconds=1.5 blocks=10 publications=400
if $quick; then rounds=3 seconds=0.5 blocks=5 publications=50; fi
round=(--rounds "$rounds" --seconds "$seconds")

# Memory first, because it must be measured just after the start of the servers.
if wants memory; then
    measure idle idle "${both[@]}" --subscribers 10000
    measure idle-etcd idle "${etcd[@]}"
    # Give the servers time to close the 10,000 connections.
    sleep 1
fi
if wants get; then
    measure get-1 get "${both[@]}" --connections 50 --depth 1 "${round[@]}"
    measure get-16 get "${both[@]}" --connections 50 --depth 16 "${round[@]}"
    measure latency get "${both[@]}" --connections 1 --latency "${round[@]}"
fi
if wants subtree; then
    measure subtree get "${both[@]}" --namespace subtree --path bench.subtree --subtree-bytes 100000 "${round[@]}"
fi
if wants connect; then
    measure connect-1 connect "${both[@]}" "${round[@]}"
    measure connect-16 connect "${both[@]}" "${round[@]}" --parallel 16
fi
if wants durable || wants etcd; then
    for writers in 1 50; do
        measure "set-$writers" set "${durable[@]}" "${etcd[@]}" --writers "$writers" "${round[@]}"
    done
fi
if wants etcd; then
    for subscribers in 1 100; do
        measure "watch-$subscribers" fanout "${agent[@]}" "${etcd[@]}" --floor-socket "$work/floor-durable.sock" \
            --durable --subscribers "$subscribers" --blocks "$blocks" --rounds "$publications"
    done
fi
if wants durable; then
    measure durable-1000 fanout "${durable[@]}" --durable --subscribers 1000 --blocks "$blocks" --rounds "$publications"
fi
if wants publish; then
    for bytes in 100 10000; do
        for subscribers in 1 10 100 1000 10000; do
            case $subscribers:$bytes in
                10:10000) continue ;;
                1:* | 10:*) repetitions=(--blocks "$blocks" --rounds "$((publications * 5))") ;;
                10000:*) repetitions=(--blocks 3 --rounds "$((publications / 8))") ;;
                *) repetitions=(--blocks "$blocks" --rounds "$publications") ;;
            esac
            measure "publish-$subscribers-$bytes" fanout "${both[@]}" --subscribers "$subscribers" --bytes "$bytes" \
                "${repetitions[@]}"
        done
    done
fi
if wants mapped; then measure mapped mapped "${agent[@]}" "${round[@]}"; fi
if wants images; then
    "$top/contrib/test_origin.py" 1 1 >"$work/pixel.png"
    # larderd is also the command line if it is started as larder.
    ln -s "$larderd" "$work/larder"
    image=https://images.invalid/pixel.png
    "$work/larder" image put "$work/pixel.png" --url "$image" "${agent[@]}" >"$work/put.log" 2>&1 ||
        { cat "$work/put.log" >&2 && fail "the agent rejected the image"; }
    measure image image "${agent[@]}" --url "$image" "${round[@]}"
fi

if wants schemas; then
    # Debian has no package of jsonschema-rs.
    "$top/contrib/install-needs.sh" python3-venv
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet jsonschema jsonschema-rs
    "$work/venv/bin/python" "$top/contrib/benchmarks/schemas/compare.py" "$bench" "$work/reports" "$rounds"
fi

facts=(
    "date=$(date -u +%Y-%m-%dT%H:%M:%SZ)" "processors=$(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    "kernel=$(uname -r)" "filesystem=$(stat -f -c %T "$work")" "quick=$quick"
    "redis=$(redis-server --version | sed -n 's/.* v=\([^ ]*\).*/\1/p')"
    "etcd=$(etcd --version | sed -n 's/etcd Version: //p')" "seconds=$SECONDS"
)
options=()
[[ -z $json ]] || options+=(--json "$json")
if $check; then options+=(--check); fi
"$top/contrib/benchmarks/peers-table.py" "$work/reports" "${facts[@]}" "${options[@]}"
