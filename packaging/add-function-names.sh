#!/usr/bin/env bash
# Writes the function names of a stripped program to a separate file, so that backtraces have names without the -dbgsym package.
#
#   packaging/add-function-names.sh ROOT PROGRAM DEBUG
#
# ROOT is the root of the package, PROGRAM the path of the program in it, and DEBUG the root of its .debug file in
# usr/lib/debug/.build-id. The names go to ROOT/usr/lib/debug/PROGRAM.debug, which the section .gnu_debuglink of the program
# refers to. They cannot be in the program itself, compressed as .gnu_debugdata: if that is larger than 192 KiB,
# swift-backtrace of Swift 6.3 ends with a fatal error, and with another compression it reads memory that it has freed.
set -euo pipefail
root=$1 program=$2
id=$(readelf -nW "$root/$program" | sed -n 's/.*Build ID: //p')
debug=$3/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
names=$root/usr/lib/debug/$program.debug
functions=$(mktemp)
trap 'rm -f "$functions"' EXIT

# Omit functions that the compiler generates for types, which are irrelevant in backtraces: accessors of metadata and witness
# tables, value witnesses, and functions that copy and destroy values (docs/ABI/Mangling.rst of Swift).
nm --defined-only --format=posix "$debug" |
  awk '$2 ~ /^[tTwW]$/ && $1 !~ /^\$s.*(M[abir]|W[OLTbclorI].?|w[a-z][a-z])$/ { print $1 }' |
  LC_ALL=C sort -u >"$functions"
[ -s "$functions" ] || { echo "$debug contains no function names" >&2; exit 1; }
mkdir -p "$(dirname "$names")"
objcopy --strip-all --remove-section=.comment --keep-symbols="$functions" "$debug" "$names"
chmod 644 "$names"
objcopy --remove-section=.gnu_debuglink "$root/$program"
objcopy --add-gnu-debuglink="$names" "$root/$program"
