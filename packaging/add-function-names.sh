#!/usr/bin/env bash
# Puts the names of a stripped program's functions into it, compressed, as .gnu_debugdata: what a crash prints has names in it
# without the -dbgsym package. This is the "MiniDebugInfo" of gdb's manual, which Swift's backtraces read, too.
#
#   packaging/add-function-names.sh PROGRAM DIRECTORY    where DIRECTORY has its .debug file under usr/lib/debug/.build-id
set -euo pipefail
program=$1
id=$(readelf -nW "$program" | sed -n 's/.*Build ID: //p')
debug=$2/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm --defined-only --format=posix "$debug" | awk '$2 ~ /^[tTwW]$/ { print $1 }' | LC_ALL=C sort -u >"$work/functions"
[ -s "$work/functions" ] || { echo "$debug has no names of functions" >&2; exit 1; }
objcopy --strip-all --remove-section=.comment --keep-symbols="$work/functions" "$debug" "$work/names"
xz --keep --threads=1 "$work/names"
objcopy --add-section .gnu_debugdata="$work/names.xz" "$program"
