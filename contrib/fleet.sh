#!/usr/bin/env bash
# Simulates, with the agent's own code, a fleet of hosts that poll one source or report to one receiver, and prints the whole table of
# benchmarks/README.md.
#
#   contrib/fleet.sh [number of hosts, default 1000000] [seed, default random]
#
# The simulation is that of Tests/LarderUpstreamTests. This script compiles it as one optimized module, because a million hosts
# take too long in a debug build.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tests=Tests/LarderUpstreamTests/Fleet
for file in Sources/LarderEncoding/{Times,FNV1a}.swift Sources/LarderHTTPSemantics/HTTPDate.swift \
  Sources/LarderUpstream/Polling/*.swift Tests/TestSupport/SeededGenerator.swift \
  "$tests"/{Fleet,FleetCalendar,LongPollFleet,StreamFleet,ReportFleet,FleetScenario}.swift; do
  grep -vE '^(internal |@testable )?import (TestSupport|Larder[A-Za-z]+)$' "$file" > "$work/$(basename "$file")"
done
cat > "$work/main.swift" <<'SWIFT'
let arguments = CommandLine.arguments.dropFirst().compactMap { UInt64($0) }
let (count, seed) = (arguments.first ?? 1_000_000, arguments.dropFirst().first ?? SeededGenerator.randomSeed)
print("| \(count) hosts, seed \(seed) | | mean, requests/s | busiest second | times the mean | limit |")
print("| --- | --- | --- | --- | --- | --- |")
for scenario in FleetScenario.all {
    for figure in scenario.run(Int(count), seed) {
        let ratio = (figure.ratio * 100).rounded() / 100
        print(
            "| \(scenario.name) | \(figure.part) | \(Int(figure.mean)) | \(figure.peak) | \(ratio) | \(figure.limit) |")
    }
}
SWIFT
swiftc -O -swift-version 6 -enable-upcoming-feature InternalImportsByDefault -package-name larder "$work"/*.swift -o "$work/fleet"
"$work/fleet" "$@"
