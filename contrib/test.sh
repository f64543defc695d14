#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs every test.
#
#   contrib/test.sh [arguments of `swift test`, such as --filter LarderJSONTests]
set -euo pipefail
cd "$(dirname "$0")/.."

contrib/install-needs.sh libsystemd-dev libsqlite3-dev libpcre2-dev pkg-config socat nginx-light etcd-server openssl systemd \
  python3 python3-jsonschema util-linux xfsprogs gcc libc6-dev

# The integration tests record their traffic with the agent, which is validated against the schemas below.
record=$(mktemp -t larder-traffic.XXXXXX)
output=$(mktemp -t larder-tests.XXXXXX)
trap 'rm -f "$record" "$output"' EXIT

swift build --build-tests
if ! LARDER_RECORD="$record" swift test --skip-build "$@" 2>&1 | tee "$output"; then
  # Repeat the failures at the end, because CI systems often keep only the end of a long log.
  printf '\n== failures\n' >&2
  grep -E -A 6 '✘ .* recorded an issue|error: |Fatal error|exited with' "$output" | grep -vE "(started\.|passed after .*)\$" >&2 || true
  grep -E '✘' "$output" | grep -v 'recorded an issue' >&2 || tail -n 20 "$output" >&2
  exit 1
fi

if [ -s "$record" ]; then
  contrib/validate-messages.py "$record"
elif [ "$#" -eq 0 ]; then
  echo "the integration tests recorded no traffic, so none was validated against the schemas" >&2
  exit 1
fi
