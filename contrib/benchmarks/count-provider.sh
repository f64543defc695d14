#!/usr/bin/env bash
# Compares the allocations of a read from the provider for swift-configuration with those of InMemoryProvider, and measures
# the delay of watchInt after a change. Starts an agent of its own.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: contrib/benchmarks/count-provider.sh [option ...]
  --bin DIRECTORY     the programs larderd and larder-bench (default: .build/release)
  --changes N         the number of changes to measure (default: 1000)
Build the programs with the flags of contrib/release-flags.sh.
USAGE
}

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$top/.build/release changes=1000
while (($#)); do
    case $1 in
        --bin) bin=${2:?--bin needs a directory} && shift ;;
        --changes) changes=${2:?--changes needs a number} && shift ;;
        -h | --help) usage && exit ;;
        *) echo "count-provider: unknown option $1" >&2 && usage >&2 && exit 2 ;;
    esac
    shift
done
for program in larderd larder-bench; do
    [[ -x $bin/$program ]] || { echo "count-provider: no program at \"$bin/$program\"; pass --bin DIRECTORY" >&2 && exit 2; }
done

"$top/contrib/install-needs.sh" gcc libc6-dev
work=$(mktemp -d -t larder-provider.XXXXXX)
agent=''
trap '[[ -z $agent ]] || { kill "$agent" && wait "$agent"; } 2>/dev/null; rm -rf "$work"' EXIT
gcc -O2 -Wall -Wextra -fno-builtin -shared -fPIC -o "$work/allocations.so" "$top/contrib/benchmarks/counting/allocations.c"
head -c 24 /dev/zero >"$work/counts"

"$bin/larderd" --socket "$work/sock" --state-directory "$work/state" --cache-directory "$work/cache" --log-level warning &
agent=$!
until [[ -S $work/sock ]]; do
    kill -0 "$agent" 2>/dev/null || { echo "count-provider: larderd did not start" >&2 && exit 1; }
    sleep 0.05
done

LD_PRELOAD=$work/allocations.so LARDER_ALLOCATIONS=$work/counts "$bin/larder-bench" provider-reads --socket "$work/sock"
"$bin/larder-bench" provider-delay --socket "$work/sock" --changes "$changes"
