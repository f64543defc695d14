#!/usr/bin/env bash
# Counts the allocations and instructions of larderd for a request, a connection and a delivered event, and compares them
# with contrib/benchmarks/counts.json. Also compares the instructions of parsers for each byte of their worst inputs with limits.
# Unlike times, these figures do not depend on the speed and load of the machine.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: contrib/benchmarks/count-instructions.sh [option ...]
  --larderd FILE      measure this program (default: .build/release/larderd)
  --deb FILE          measure the program of this Debian package
  --record            write the figures to counts.json, after an intended change
  --no-instructions   count only allocations, without valgrind
Build the program with the flags of contrib/release-flags.sh. The counts of instructions need swiftc, for the reader of snapshot
files.
USAGE
}

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
larderd=$top/.build/release/larderd deb='' options=() needs=(binutils gcc libc6-dev python3 valgrind)
while (($#)); do
    case $1 in
        --larderd) larderd=${2:?--larderd needs a file} && shift ;;
        --deb) deb=${2:?--deb needs a file} && shift ;;
        --record | --no-instructions) options+=("$1") ;;
        -h | --help) usage && exit ;;
        *) echo "count-instructions: unknown option $1" >&2 && usage >&2 && exit 2 ;;
    esac
    shift
done

"$top/contrib/install-needs.sh" "${needs[@]}"
work=$(mktemp -d -t larder-counting.XXXXXX)
trap 'rm -rf "$work"' EXIT
if [[ -n $deb ]]; then
    dpkg-deb --extract "$deb" "$work/package"
    larderd=$(find "$work/package" -type f -name larderd -perm /111)
fi
[[ -x $larderd ]] || { echo "count-instructions: no program at \"$larderd\"; pass --larderd FILE" >&2 && exit 2; }
# Remove the debugging information: valgrind does not support that of every compiler, and does not need it.
strip --strip-debug -o "$work/larderd" "$larderd"
gcc -O2 -Wall -Wextra -fno-builtin -shared -fPIC -o "$work/allocations.so" "$top/contrib/benchmarks/counting/allocations.c"
python3 "$top/contrib/benchmarks/counting/count.py" --larderd "$work/larderd" --counter "$work/allocations.so" "${options[@]}"
if [[ " ${options[*]} " != *" --no-instructions "* ]]; then
    # Programs read snapshot files, and larderd only writes them.
    swiftc -O -swift-version 6 -package-name larder -parse-as-library -static-stdlib -o "$work/snapshot-search" \
        "$top"/Sources/LarderSnapshotFile/{PathKey,SnapshotFileError,SnapshotFileIndex,SnapshotFileLayout}.swift \
        "$top/contrib/benchmarks/counting/SnapshotSearch.swift"
    python3 "$top/contrib/benchmarks/counting/parsers.py" --larderd "$work/larderd" --snapshot-search "$work/snapshot-search"
fi
