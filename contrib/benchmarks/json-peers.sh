#!/usr/bin/env bash
# Parses one configuration document with Larder's parser, Foundation's JSONSerialization, Python's json and orjson, all
# on this machine, and prints the ratios.
#
#   contrib/benchmarks/json-peers.sh [MEGABYTES]
#
# LARDER_BENCH names a larder-bench that is built already. orjson comes from PyPI into a temporary virtual environment
# unless the system's Python has it.
set -euo pipefail

megabytes=${1:-1}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Runs a command and shows what it said only if it fails.
quietly() {
    "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
}

install() {
    local sudo=()
    [[ $EUID -eq 0 ]] || sudo=(sudo)
    quietly "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

bench=${LARDER_BENCH:-}
if [[ -z $bench ]]; then
    cd "$root"
    build=(swift build -c release --static-swift-stdlib --product larder-bench -Xswiftc -enforce-exclusivity=unchecked)
    quietly "${build[@]}"
    bench=$("${build[@]}" --show-bin-path)/larder-bench
fi

command -v python3 >/dev/null || install python3
python=python3
if ! python3 -c 'import orjson' 2>/dev/null; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || install python3-venv
    quietly python3 -m venv "$scratch/venv"
    quietly "$scratch/venv/bin/pip" install --disable-pip-version-check orjson
    python=$scratch/venv/bin/python
fi

"$bench" json --megabytes "$megabytes" --save "$scratch/document.json" --json >"$scratch/larder.json"
"$python" "$root/contrib/benchmarks/json-peers.py" "$scratch/document.json" "$scratch/larder.json"
