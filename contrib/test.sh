#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs tests.
#
#   contrib/test.sh                       all tests, as CI does
#   contrib/test.sh --quick               the tests to run before a commit: none that starts processes or takes long
#   contrib/test.sh --filter LarderJSON   the tests that match; takes all arguments of `swift test`
#
# A complete run fails if it skipped a test that this machine could run.
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=("$@")
kind=selected
if [ $# -eq 0 ]; then kind=complete; fi
if [ "${1:-}" = --quick ]; then
  kind=quick
  arguments=(--skip '^(IntegrationTests|ProtocolTests)\.' --skip '^(LarderImagesTests\.(DiskSpace|CacheScale|CacheRoom|BlobKill)|LarderJSONTests\.HostileInput)Tests/' "${@:2}")
fi

contrib/install-needs.sh libsystemd-dev libsqlite3-dev libpcre2-dev nettle-dev zlib1g-dev pkg-config socat nginx-light tinyproxy etcd-server prometheus openssl systemd \
  python3 python3-jsonschema util-linux xfsprogs gcc libc6-dev

# The integration tests record their traffic with the agent, which is validated against the schemas below.
record=$(mktemp -t larder-traffic.XXXXXX)
output=$(mktemp -t larder-tests.XXXXXX)
trap 'rm -f "$record" "$output"' EXIT

# Without this variable, SwiftPM passes the traits of the package to the compiler in random order, and each call compiles the
# modules of Larder again.
export SWIFT_DETERMINISTIC_HASHING=1
swift build --build-tests
if ! LARDER_RECORD="$record" swift test --skip-build "${arguments[@]}" 2>&1 | tee "$output"; then
  # Repeat the failures at the end, because CI systems often keep only the end of a long log.
  printf '\n== failures\n' >&2
  grep -E -A 6 '✘ .* recorded an issue|error: |Fatal error|exited with' "$output" | grep -vE "(started\.|passed after .*)\$" >&2 || true
  grep -E '✘' "$output" | grep -v 'recorded an issue' >&2 || tail -n 20 "$output" >&2
  exit 1
fi

if [ -s "$record" ]; then
  contrib/validate-messages.py "$record"
elif [ "$kind" = complete ]; then
  echo "the integration tests recorded no traffic, so none was validated against the schemas" >&2
  exit 1
fi

# The skipped tests, grouped by reason. The reason is the comment of the condition in the test.
can_run() { # REASON: whether this machine has what the tests need
  case $1 in
    "needs LARDER_SUITES with "*) [ -d "${LARDER_SUITES:-/nonexistent}/${1##* }" ] ;;
    "needs LARDER_BLOB_CHILD"*) false ;; # a part of another test, in a process that the test starts
    *"mount file systems"*) unshare --mount mount -t tmpfs tmpfs /tmp 2>/dev/null ;;
    *"loop devices") [ "$(id -u)" -eq 0 ] && [ -e /dev/loop-control ] ;;
    *"without a group larder") [ "$(id -u)" -eq 0 ] && ! getent group larder >/dev/null ;;
    *"user namespaces") unshare --user --map-root-user --mount mount -t tmpfs tmpfs /tmp 2>/dev/null ;;
    *"the group daemon") [ "$(id -u)" -eq 0 ] && getent group daemon >/dev/null ;;
    "needs root"*) [ "$(id -u)" -eq 0 ] ;;
    *) true ;;
  esac
}
skipped=$(sed -nE 's/^.*➜ Test .* skipped: "(.*)"$/\1/p; s/^.*➜ Test .* skipped\.$/no reason/p' "$output" | sort | uniq -c)
[ -n "$skipped" ] || exit 0
printf '\n== skipped tests\n%s\n' "$skipped"
[ "$kind" = complete ] || exit 0
status=0
while read -r count reason; do
  if can_run "$reason"; then
    echo "test.sh: this machine could run $count skipped tests: $reason" >&2
    status=1
  fi
done <<<"$skipped"
exit "$status"
