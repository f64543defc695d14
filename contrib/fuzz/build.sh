#!/usr/bin/env bash
# Builds the fuzzers: larder's own modules, optimised, with coverage and address sanitizer, and one program of all
# fuzzers, .build-fuzz/larder-fuzz. Modules that have not changed since are not built again.
#
#   contrib/fuzz/build.sh          build them; .build-fuzz/NAME is a link to the program for each fuzzer
#   contrib/fuzz/build.sh --list   print the names of the fuzzers, one a line, and build nothing
#
# The packages that larder depends on are taken from the debug build of the tests (swift build --build-tests), which is
# made first where there is none: what is fuzzed is larder's own code, and BoringSSL takes minutes.
# shellcheck disable=SC2046 # paths of sources have no spaces
set -euo pipefail
cd "$(dirname "$0")/../.."

# Their names are those of the table in Fuzzers.swift.
mapfile -t fuzzers < <(grep -oE '"[a-z]+": fuzz' contrib/fuzz/Sources/Fuzzers.swift | cut -d '"' -f 2)
[ "${#fuzzers[@]}" -gt 0 ] || { echo "no fuzzers found in contrib/fuzz/Sources/Fuzzers.swift" >&2; exit 1; }
if [ "${1:-}" = --list ]; then
  printf '%s\n' "${fuzzers[@]}"
  exit
fi

debug=.build/debug
out=.build-fuzz
mkdir -p "$out"
objects=$debug/larderd.product/Objects.LinkFileList
[ -e "$objects" ] || swift build --build-tests

maps=()
for map in "$debug"/*.build/module.modulemap .build/checkouts/*/Sources/*/include/module.modulemap; do
  maps+=(-Xcc "-fmodule-map-file=$map")
done
# shellcheck disable=SC2054
flags=(-O -g -parse-as-library -enable-testing -assert-config Debug -swift-version 6 -package-name larder -sanitize=address,fuzzer
  -enable-upcoming-feature NonisolatedNonsendingByDefault -enable-upcoming-feature InferIsolatedConformances
  -enable-upcoming-feature ExistentialAny -enable-upcoming-feature InternalImportsByDefault
  -enable-upcoming-feature MemberImportVisibility
  -I "$out" -I "$debug/Modules" -module-cache-path "$out/ModuleCache" "${maps[@]}")

# Builds a module of its sources, if one of them or a module that it imports is newer than what is there.
module() { # NAME "IMPORT ..." SOURCE...
  local name=$1 object=$out/$1.o newer=("${@:3}") import
  for import in $2; do newer+=("$out/$import.o"); done
  if [ -e "$object" ] && [ -z "$(find "${newer[@]}" -newer "$object" -print -quit)" ]; then return; fi
  swiftc "${flags[@]}" -whole-module-optimization -module-name "$name" -emit-module \
    -emit-module-path "$out/$name.swiftmodule" -c -o "$object.new" "${@:3}"
  mv "$object.new" "$object"
}

# All sources of targets.
sources() { # TARGET...
  find "${@/#/Sources/}" -name '*.swift' | sort
}

# Two at a time, in the order of their imports. Of the server only what reads what others send.
at_once() { local jobs=$*; for job in $jobs; do "$job" & done; for job in $jobs; do wait -n; done; }
json() { module LarderJSON "" $(sources LarderJSON); }
platform() { module LarderPlatform "" $(sources LarderPlatform); }
encoding() { module LarderEncoding "" $(sources LarderEncoding); }
semantics() { module LarderHTTPSemantics LarderEncoding $(sources LarderHTTPSemantics); }
upstream() { module LarderUpstream "LarderEncoding LarderHTTPSemantics LarderPlatform" $(sources LarderUpstream); }
wire() { module LarderProtocol LarderJSON $(sources LarderProtocol); }
json5() { module LarderJSON5 LarderJSON $(sources LarderJSON5); }
config_model() {
  module LarderConfigModel "LarderJSON LarderEncoding LarderHTTPSemantics" $(sources LarderConfigModel)
}
config_storage() {
  module LarderConfigStorage \
    "LarderConfigModel LarderJSON LarderEncoding LarderHTTPSemantics LarderPlatform" \
    $(sources LarderConfigStorage)
}
config_sources() {
  module LarderConfigSources \
    "LarderConfigModel LarderJSON LarderJSON5 LarderEncoding LarderHTTPSemantics LarderPlatform LarderUpstream" \
    $(sources LarderConfigSources)
}
template() { module LarderTemplate LarderJSON $(sources LarderTemplate); }
snapshot() { module LarderSnapshotFile LarderJSON $(sources LarderSnapshotFile); }
formats() { module LarderImageFormats "" $(sources LarderImageFormats); }
server() { module LarderServer "LarderJSON LarderProtocol" Sources/LarderServer/Dispatch/RequestTemplate.swift; }
at_once json encoding
at_once semantics platform
at_once upstream json5
at_once config_model wire
at_once config_storage config_sources
at_once template snapshot
at_once formats server
module Fuzzers \
  "LarderEncoding LarderJSON LarderHTTPSemantics LarderPlatform LarderUpstream LarderProtocol LarderJSON5 LarderConfigModel LarderConfigStorage LarderConfigSources LarderTemplate LarderSnapshotFile LarderImageFormats LarderServer" \
  contrib/fuzz/Sources/*.swift

program=$out/larder-fuzz
if [ ! -e "$program" ] || [ -n "$(find "$out"/*.o -newer "$program" -print -quit)" ]; then
  grep -vE '/(Larder[A-Za-z0-9]*|larder[a-z-]*|CProtocolDescription)\.build/' "$objects" \
    >"$out/objects"
  swiftc -sanitize=address,fuzzer -use-ld=lld -o "$program" "$out"/*.o "@$out/objects" -lz -lstdc++ -lm
fi
for fuzzer in "${fuzzers[@]}"; do ln -sf larder-fuzz "$out/$fuzzer"; done
