#!/usr/bin/env bash
# Writes down which functions of larderd are at work once it has started, so that the linker puts them side by side.
#
# Scattered over 24 MB of code they keep 9 MB of it in memory, since the kernel maps 64 KB around each that is called; side
# by side 6 MB, most of it of Swift's own library, which is in one piece. contrib/release-flags.sh hands
# contrib/code-order/larderd.txt to the linker. A name that no function has any more is passed over, and a function that is
# not in it is where it would be without: the list may be older than the code.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    echo "usage: contrib/code-order/record.sh [FILE]"
    echo "Records what FILE does under valgrind (default: .build/release/larderd, built with contrib/release-flags.sh)."
    exit
fi
larderd=${1:-$top/.build/release/larderd}
"$top/contrib/install-needs.sh" binutils python3 valgrind
[[ -x $larderd ]] || { echo "record: no program at \"$larderd\"" >&2 && exit 2; }
work=$(mktemp -d -t larder-order.XXXXXX)
trap 'rm -rf "$work"' EXIT
# valgrind cannot read the debugging information of every compiler; the names of functions stay.
strip --strip-debug -o "$work/larderd" "$larderd"
python3 "$top/contrib/code-order/record.py" "$work/larderd" "$work" >"$work/order"
mv "$work/order" "$top/contrib/code-order/larderd.txt"
wc -l "$top/contrib/code-order/larderd.txt"
