#!/usr/bin/env bash
# Runs the tests under a sanitizer.
#
#   contrib/torture/sanitizers.sh thread               races
#   contrib/torture/sanitizers.sh address              memory that is not the program's, or not any more
#   contrib/torture/sanitizers.sh undefined            undefined behaviour of the C shims
#   contrib/torture/sanitizers.sh thread --filter ^LarderServerTests
#
# Each has a build of its own, .build-SANITIZER, which takes as long as the first one of the tests; the tests take two to
# ten times as long as without. The programs that the tests start are of the same build. Prints the reports, and last the
# line of the form of contrib/torture.sh: torture, test, attempts (tests), survived, lost. Ends with 1 if there was a report
# or a test failed.
set -euo pipefail
cd "$(dirname "$0")/../.."

case ${1:-} in
  thread | address | undefined) sanitizer=$1; shift ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
esac
contrib/install-needs.sh libsystemd-dev libsqlite3-dev pkg-config socat nginx-light etcd-server openssl systemd python3 \
  util-linux

work=$(mktemp -d -t larder-sanitizer.XXXXXX)
trap 'rm -rf "$work"' EXIT
scratch=.build-$sanitizer
swift build --build-tests --sanitize="$sanitizer" --scratch-path "$scratch"

# Programs go on after a report, so that one does not hide the next.
options="log_path=$work/report exitcode=0"
case $sanitizer in
  thread)
    clang -O1 -fPIC -shared -o "$work/mutex.so" contrib/torture/mutex-for-tsan.c
    export LD_PRELOAD="$work/mutex.so"
    export TSAN_OPTIONS="$options history_size=4 suppressions=$PWD/contrib/torture/thread.suppressions"
    ;;
  # What Swift makes once and keeps would be a leak.
  address) export ASAN_OPTIONS="$options detect_leaks=0 halt_on_error=0" ;;
  undefined) export UBSAN_OPTIONS="log_path=$work/report print_stacktrace=1" ;;
esac
status=0
swift test --skip-build --sanitize="$sanitizer" --scratch-path "$scratch" "$@" 2>&1 | tee "$work/log" || status=$?
unset LD_PRELOAD

tests=$(sed -n 's/.*Test run with \([0-9]*\) tests.*/\1/p' "$work/log" | tail -n 1)
reports=$(cat "$work"/report* 2>/dev/null | grep -c '^SUMMARY' || true)
cat "$work"/report* 2>/dev/null >&2 || true
grep -E '✘' "$work/log" >&2 || true
lost=$((reports + (status != 0)))
printf 'torture\t%s sanitizer\t%s\t%s\t%s\n' "$sanitizer" "${tests:-0}" "$((${tests:-0} - lost))" "$lost"
[ "$lost" -eq 0 ]
