#!/usr/bin/env bash
# Runs the tests under a sanitizer.
#
#   contrib/torture/sanitizers.sh thread               data races
#   contrib/torture/sanitizers.sh address              invalid memory accesses, and undefined behavior in C code
#   contrib/torture/sanitizers.sh thread --filter ^LarderServerTests
#
# Each sanitizer has a separate build in .build-SANITIZER, which takes as long as the first build of the tests. The tests
# take two to ten times as long as without a sanitizer. The programs that the tests start are from the same build. Without
# other arguments, the test targets run one at a time with a limit of 30 minutes each, so that a target that hangs does not
# prevent the others. Prints the reports, and then a row in the format of contrib/torture.sh: torture, test, attempts
# (tests), survived, lost. Exits with status 1 if there was a report or a test failed.
set -euo pipefail
cd "$(dirname "$0")/../.."

case ${1:-} in
  thread | address) sanitizer=$1; shift ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
esac
contrib/install-needs.sh libsystemd-dev libsqlite3-dev libpcre2-dev nettle-dev zlib1g-dev pkg-config socat nginx-light etcd-server openssl systemd \
  python3 util-linux gcc libc6-dev

work=$(mktemp -d -t larder-sanitizer.XXXXXX)
trap 'rm -rf "$work"' EXIT
# Some tests start programs as other users. These programs load the library from this directory, so other users must have
# access to it.
chmod 711 "$work"
scratch=.build-$sanitizer
# swiftc has no option for undefined behavior; clang, which compiles C code and headers and links the programs, has one.
flags=(-Xcc -fsanitize=undefined -Xswiftc -Xclang-linker -Xswiftc -fsanitize=undefined)
case $sanitizer in
  thread) flags=(--sanitize=thread) ;;
  address) flags+=(--sanitize=address) ;;
esac
swift build --build-tests "${flags[@]}" --scratch-path "$scratch"
# Suppressions need function names, which the symbolizer finds. Tests start programs with other values of PATH, so the path
# must be absolute.
symbolizer=$(command -v llvm-symbolizer || true)
symbolizer=${symbolizer:+external_symbolizer_path=$symbolizer}

case $sanitizer in
  thread)
    clang -O1 -fPIC -shared -o "$work/mutex.so" contrib/torture/mutex-for-tsan.c
    export LD_PRELOAD="$work/mutex.so"
    # exitcode=0: a report does not change the exit status of a program, so that a test continues and finds more.
    export TSAN_OPTIONS="$symbolizer log_path=$work/report exitcode=0 history_size=4 suppressions=$PWD/contrib/torture/thread.suppressions"
    ;;
  # Without leak detection, because it reports objects that Swift creates once and never frees.
  address)
    export ASAN_OPTIONS="$symbolizer log_path=$work/report detect_leaks=0 print_stacktrace=1"
    export UBSAN_OPTIONS="$ASAN_OPTIONS"
    ;;
esac
filters=()
if [ "$#" -eq 0 ]; then
  for folder in Tests/*/; do filters+=("^$(basename "$folder")\\."); done
fi
tests=0
failures=0
run() {
  local status=0
  timeout --kill-after=10 1800 swift test --skip-build "${flags[@]}" --scratch-path "$scratch" "$@" 2>&1 |
    tee "$work/log" || status=$?
  local count
  count=$(sed -n 's/.*Test run with \([0-9]*\) tests\{0,1\} .*/\1/p' "$work/log" | tail -n 1)
  tests=$((tests + ${count:-0}))
  # A filter that matches no tests is a failure.
  if [ "$status" -ne 0 ] || [ "${count:-0}" -eq 0 ]; then
    failures=$((failures + 1))
    { printf '%s: status %s\n' "$*" "$status"; grep -E '✘' "$work/log" || true; } >>"$work/failed"
  fi
}
if [ "$#" -gt 0 ]; then run "$@"; else for filter in "${filters[@]}"; do run --filter "$filter"; done; fi
unset LD_PRELOAD

reports=$(cat "$work"/report* 2>/dev/null | grep -c '^SUMMARY' || true)
cat "$work"/report* "$work/failed" >&2 2>/dev/null || true
lost=$((reports + failures))
printf 'torture\t%s sanitizer\t%s\t%s\t%s\n' "$sanitizer" "$tests" "$((tests > lost ? tests - lost : 0))" "$lost"
[ "$lost" -eq 0 ]
