#!/usr/bin/env bash
# Builds the fuzzers: Larder's modules, optimized, with coverage and the address sanitizer, and the program
# .build-fuzz/larder-fuzz, which contains all fuzzers. Builds only modules that have changed.
#
#   contrib/fuzz/build.sh          build the fuzzers; each one is a link to the program, .build-fuzz/NAME
#   contrib/fuzz/build.sh --list   print the names of the fuzzers, one per line, without building
#
# Dependencies come from the debug build of the tests (swift build --build-tests), which the script makes if it does not exist.
# They are not fuzzed, and BoringSSL alone takes minutes to build.
# shellcheck disable=SC2046 # paths of sources have no spaces
set -euo pipefail
cd "$(dirname "$0")/../.."

# The names of the fuzzers are those in the table in Fuzzers.swift.
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
[ -e "$objects" ] || SWIFT_DETERMINISTIC_HASHING=1 swift build --build-tests

maps=()
for map in "$debug"/*.build/module.modulemap .build/checkouts/*/Sources/*/include/module.modulemap; do
  maps+=(-Xcc "-fmodule-map-file=$map")
done
for library in CNettle CPCRE2 CZlib; do maps+=(-Xcc "-fmodule-map-file=Sources/$library/module.modulemap"); done
# shellcheck disable=SC2054
flags=(-O -g -parse-as-library -enable-testing -assert-config Debug -swift-version 6 -package-name larder -sanitize=address,fuzzer
  -enable-upcoming-feature NonisolatedNonsendingByDefault -enable-upcoming-feature InferIsolatedConformances
  -enable-upcoming-feature ExistentialAny -enable-upcoming-feature InternalImportsByDefault
  -enable-upcoming-feature MemberImportVisibility
  -I "$out" -I "$debug/Modules" -module-cache-path "$out/ModuleCache" "${maps[@]}")

# Builds a module if a source, or a module that it imports, is newer than its object file.
module() { # NAME SOURCE...
  local name=$1 object=$out/$1.o newer=("${@:2}") import
  for import in $(grep -ohE '^(@testable |[a-z]+ )?import Larder\w+' "${@:2}" | grep -oE '\w+$' | sort -u); do
    newer+=("$out/$import.o")
  done
  if [ -e "$object" ] && [ -z "$(find "${newer[@]}" -newer "$object" -print -quit)" ]; then return; fi
  swiftc "${flags[@]}" -whole-module-optimization -module-name "$name" -emit-module \
    -emit-module-path "$out/$name.swiftmodule" -c -o "$object.new" "${@:2}"
  mv "$object.new" "$object"
}

# Builds modules of the package at the same time. None of them may import another.
modules() { # NAME...
  for name in "$@"; do module "$name" $(find "Sources/$name" -name '*.swift' | sort) & done
  for _ in "$@"; do wait -n; done
}
modules LarderJSON LarderEncoding
modules LarderHTTPSemantics LarderPlatform
modules LarderUpstream LarderJSON5
modules LarderDigest LarderProtocol
modules LarderConfigModel LarderTemplate
modules LarderConfigStorage LarderConfigSources
modules LarderSnapshotFile LarderSchema
modules LarderImageFormats
# Only these files of the modules are needed.
module LarderServer Sources/LarderServer/Dispatch/RequestTemplate.swift
module LarderCommand Sources/LarderCommand/Backup/BackupFile.swift contrib/fuzz/Stubs/*.swift
module Fuzzers contrib/fuzz/Sources/*.swift Tests/TestSupport/SeededGenerator.swift \
  Tests/LarderJSONTests/{Model,Parsing/ReferenceParser}.swift

program=$out/larder-fuzz
if [ ! -e "$program" ] || [ -n "$(find "$out"/*.o -newer "$program" -print -quit)" ]; then
  grep -vE '/(Larder[A-Za-z0-9]*|larder[a-z-]*|CProtocolDescription)\.build/' "$objects" \
    >"$out/objects"
  swiftc -sanitize=address,fuzzer -use-ld=lld -o "$program" "$out"/*.o "@$out/objects" -lnettle -lpcre2-8 -lz -lstdc++ -lm
fi
for fuzzer in "${fuzzers[@]}"; do ln -sf larder-fuzz "$out/$fuzzer"; done
