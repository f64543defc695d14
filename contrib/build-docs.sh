#!/usr/bin/env bash
# Builds the documentation of the Swift library from the modules that `swift build` built. Fails if DocC has a warning.
# The output is in .build/docs, with a directory for each product. That of LarderClient also documents the modules that
# LarderClient re-exports.
set -euo pipefail
cd "$(dirname "$0")/.."

build=.build
graphs=$(mktemp -d -t larder-symbols.XXXXXX)
trap 'rm -rf "$graphs"' EXIT

# The modules of the dependencies that are written in C.
maps=()
for map in "$build"/debug/*.build/module.modulemap "$build"/checkouts/*/Sources/*/include/module.modulemap \
  Sources/*/module.modulemap; do
  if [ -f "$map" ]; then maps+=(-Xcc "-fmodule-map-file=$map"); fi
done

target=$(swiftc -print-target-info | sed -n 's/^ *"triple": "\(.*\)",/\1/p' | head -n 1)
docc=$(dirname "$(command -v swift)")/docc

# document MODULE [--catalog DIR] [option of symbolgraph-extract...]
document() {
  local module=$1 catalog=()
  shift
  if [ "${1:-}" = --catalog ]; then catalog=("$2"); shift 2; fi
  mkdir "$graphs/$module"
  swift symbolgraph-extract -module-name "$module" -target "$target" \
    -I "$build/debug/Modules" "${maps[@]}" \
    -minimum-access-level public -skip-synthesized-members -skip-inherited-docs -output-dir "$graphs/$module" "$@"
  # DocC ignores the comments of symbols that come from another module.
  sed -i 's/"module":"Larder[A-Za-z]*"/"module":"'"$module"'"/g' "$graphs/$module"/*.json
  "$docc" convert "${catalog[@]}" --additional-symbol-graph-dir "$graphs/$module" \
    --fallback-display-name "$module" --fallback-bundle-identifier "$module" \
    --output-path "$build/docs/$module" --warnings-as-errors
}

mkdir -p "$build/docs"
document LarderClient --catalog Sources/LarderClient/LarderClient.docc \
  -experimental-allowed-reexported-modules=LarderClientCore,LarderJSON
document LarderFlags
document LarderTesting
document LarderServiceLifecycle
document ConfigurationLarder
