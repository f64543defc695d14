#!/usr/bin/env bash
# Puts the names of a stripped program's functions beside it, so that what a crash prints has names without the -dbgsym package.
#
#   packaging/add-function-names.sh ROOT PROGRAM DEBUG
#
# ROOT is the package's root, PROGRAM the program's path in it, DEBUG the root with its .debug file in usr/lib/debug/.build-id.
# The names go to ROOT/usr/lib/debug/PROGRAM.debug, which a link in the program (.gnu_debuglink) leads to. They could be in the
# program itself, compressed (.gnu_debugdata); but swift-backtrace of Swift 6.3 ends with a fatal error where that is more than
# 192 KiB, and reads memory that it gave back where tables are compressed in another way.
set -euo pipefail
root=$1 program=$2
id=$(readelf -nW "$root/$program" | sed -n 's/.*Build ID: //p')
debug=$3/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
names=$root/usr/lib/debug/$program.debug
functions=$(mktemp)
trap 'rm -f "$functions"' EXIT

# Without what the compiler makes of types for itself, which no stack of interest has in it: accessors of metadata and of
# witness tables, value witnesses, copies and destructions of values (Swift's docs/ABI/Mangling.rst).
nm --defined-only --format=posix "$debug" |
  awk '$2 ~ /^[tTwW]$/ && $1 !~ /^\$s.*(M[abir]|W[OLTbclorI].?|w[a-z][a-z])$/ { print $1 }' |
  LC_ALL=C sort -u >"$functions"
[ -s "$functions" ] || { echo "$debug has no names of functions" >&2; exit 1; }
mkdir -p "$(dirname "$names")"
objcopy --strip-all --remove-section=.comment --keep-symbols="$functions" "$debug" "$names"
chmod 644 "$names"
objcopy --remove-section=.gnu_debuglink "$root/$program"
objcopy --add-gnu-debuglink="$names" "$root/$program"
