#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs every test.
#
#   contrib/test.sh [arguments of `swift test`, such as --filter JSONTests]
set -euo pipefail
cd "$(dirname "$0")/.."

contrib/install-needs.sh libsystemd-dev libsqlite3-dev pkg-config socat nginx-light etcd-server openssl systemd python3 \
  python3-jsonschema util-linux

# The integration tests record what they exchange with the agent; it is checked against the schemas below.
record=$(mktemp -t larder-traffic.XXXXXX)
trap 'rm -f "$record"' EXIT

swift build --build-tests
LARDER_RECORD="$record" swift test --skip-build "$@"

if [ -s "$record" ]; then
  contrib/validate-messages.py "$record"
elif [ "$#" -eq 0 ]; then
  echo "the integration tests recorded no traffic; nothing could be checked against the schemas" >&2
  exit 1
fi
