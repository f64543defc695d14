#!/usr/bin/env bash
# Builds the documentation of the Swift library from the modules that `swift build` built. Fails if DocC has a warning.
#
#   contrib/build-docs.sh [--build DIR] [--modules DIR]
#
#   --build DIR    the build directory; by default .build. The output is in DIR/docs.
#   --modules DIR  a directory whose modules are used in preference to those of the build directory
#
# The page of LarderClient also documents the modules that LarderClient re-exports.
set -euo pipefail
cd "$(dirname "$0")/.."

build=.build
modules=()
while [ "$#" -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --modules) modules+=(-I "$2"); shift 2 ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
done

graphs=$(mktemp -d -t larder-symbols.XXXXXX)
trap 'rm -rf "$graphs"' EXIT

# The modules of the dependencies that are written in C.
maps=()
for map in "$build"/debug/*.build/module.modulemap "$build"/checkouts/*/Sources/*/include/module.modulemap \
  Sources/*/include/module.modulemap; do
  if [ -f "$map" ]; then maps+=(-Xcc "-fmodule-map-file=$map"); fi
done

target=$(swiftc -print-target-info | sed -n 's/^ *"triple": "\(.*\)",/\1/p' | head -n 1)
swift symbolgraph-extract -module-name LarderClient -target "$target" \
  "${modules[@]}" -I "$build/debug/Modules" "${maps[@]}" \
  -minimum-access-level public -skip-synthesized-members -skip-inherited-docs -output-dir "$graphs" \
  -experimental-allowed-reexported-modules=LarderClientCore,LarderProtocol,LarderJSON,LarderSnapshotFile
# DocC ignores the comments of symbols that come from another module.
sed -i 's/"module":"Larder[A-Za-z]*"/"module":"LarderClient"/g' "$graphs"/*.json

"$(dirname "$(command -v swift)")/docc" convert Sources/LarderClient/LarderClient.docc \
  --additional-symbol-graph-dir "$graphs" \
  --fallback-display-name LarderClient \
  --fallback-bundle-identifier LarderClient \
  --output-path "$build/docs" \
  --warnings-as-errors
