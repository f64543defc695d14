#!/usr/bin/env bash
# Builds the example packages from a clean directory, runs each with an agent, and checks what it prints. Also checks that
# command-line-tool, which only uses LarderClient, resolves and builds nothing of the agent.
#
#   contrib/examples/build.sh                     all examples
#   contrib/examples/build.sh command-line-tool   only this example
#     --larderd PROGRAM                           the agent; without it, .build/debug/larderd
#
# Each example is a package of its own. All are built in the same directory, .build-examples, in the order of their number
# of dependencies: each package then adds modules to those of the packages before it. In separate directories, swift-nio would be
# compiled four times.
set -euo pipefail

examples=(command-line-tool observation-loop cross-platform configuration-reader hummingbird-server)
larderd='' names=()
while [ $# -gt 0 ]; do
  case "$1" in
    --larderd)
      larderd=$(realpath "${2:?"--larderd needs a path"}")
      shift 2
      ;;
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
      exit 0
      ;;
    *)
      if [[ " ${examples[*]} " != *" $1 "* ]]; then
        echo "build.sh: unknown argument '$1'; try --help, or name one of: ${examples[*]}" >&2
        exit 2
      fi
      names+=("$1")
      shift
      ;;
  esac
done
[ "${#names[@]}" -gt 0 ] || names=("${examples[@]}")
cd "$(dirname "$0")/../.."
larderd=${larderd:-$PWD/.build/debug/larderd}
if [ ! -x "$larderd" ]; then
  echo "build.sh: there is no program $larderd; run 'swift build --product larderd', or name one with --larderd" >&2
  exit 1
fi
contrib/install-needs.sh curl python3

scratch=$PWD/.build-examples
dir=$(mktemp -d -t larder-examples.XXXXXX)
mkdir "$dir/bin"
# Both names refer to one program; as `larder` it is the command line.
for name in larderd larder; do ln -s "$larderd" "$dir/bin/$name"; done
export PATH="$dir/bin:$scratch/debug:$PATH" LARDER_SOCKET="$dir/larder.sock"
agent='' program=''
stop() {
  local status=$?
  for pid in $program $agent; do kill "$pid" 2>/dev/null || true; done
  for pid in $program $agent; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
  exit "$status"
}
trap stop EXIT

say() { printf '\n# %s\n' "$*"; }
fail() {
  printf '\nbuild.sh: %s\n' "$1" >&2
  for file in "$dir"/*.out "$dir"/larderd.log; do
    [ -s "$file" ] || continue
    echo "--- $(basename "$file")" >&2
    tail -n 20 "$file" >&2
  done
  exit 1
}
# expect WHAT ACTUAL EXPECTED
expect() { [ "$2" = "$3" ] || fail "$1: expected '$3', got '$2'"; }

# Builds a package and prints the number of build steps.
build() { # NAME
  local log=$dir/build.log start=$SECONDS
  say "Building $1"
  if ! swift build --package-path "contrib/examples/$1" --scratch-path "$scratch" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    fail "$1 does not build"
  fi
  if grep -E 'contrib/examples/.*warning:' "$log" >&2; then fail "$1 builds with warnings"; fi
  echo "$(grep -oE '^\[[0-9]+/[0-9]+\]' "$log" | tail -n 1 | tr -d '[]' | cut -d/ -f2) build steps, $((SECONDS - start)) s"
}

start_agent() {
  larderd --settings "$dir/larder.json" --socket "$LARDER_SOCKET" \
    --state-directory "$dir/state" --cache-directory "$dir/cache" 2>>"$dir/larderd.log" &
  agent=$!
  for _ in $(seq 100); do
    larder ping >/dev/null 2>&1 && return
    kill -0 "$agent" 2>/dev/null || break
    sleep 0.1
  done
  fail "the agent did not start"
}
stop_agent() {
  kill "$agent"
  wait "$agent" || true
  agent=''
}

# Starts a program in the background. Its output goes to the file "$dir/NAME.out".
run() { # NAME ARGUMENT...
  local name=$1
  "$@" >"$dir/$name.out" 2>&1 &
  program=$!
}
# Waits until the output of a program has a line that matches a pattern.
await() { # NAME PATTERN
  for _ in $(seq 200); do
    grep -qE "$2" "$dir/$1.out" && return
    kill -0 "$program" 2>/dev/null || break
    sleep 0.1
  done
  fail "$1 printed no line that matches '$2'"
}
# Ends the program and prints its output.
finish() { # NAME
  kill "$program"
  wait "$program" 2>/dev/null || true
  program=''
  sed "s/^/$1: /" "$dir/$1.out"
}

# Prints the names of the files of a directory that match a pattern, in one line.
names_of() { # DIRECTORY PATTERN
  find "$1" -mindepth 1 -maxdepth 1 -name "$2" -printf '%f\n' | LC_ALL=C sort | sed 's/\.swiftmodule$//' | paste -sd' '
}

# Each function below runs one example. It begins without an agent, with an empty configuration.

example-command-line-tool() {
  echo "The packages that it resolves:"
  swift package --package-path contrib/examples/command-line-tool --scratch-path "$scratch" show-dependencies
  expect "the packages that LarderClient needs" "$(names_of "$scratch/checkouts" '*')" \
    "swift-atomics swift-collections swift-nio swift-system"
  expect "the modules of LarderClient" "$(names_of "$scratch/debug/Modules" 'Larder*.swiftmodule')" \
    "LarderClient LarderClientCore LarderEncoding LarderJSON LarderProtocol LarderSnapshotFile"

  if search-limit 2>"$dir/error.out"; then fail "search-limit succeeded without an agent"; fi
  expect "the lines of the error and the advice" "$(wc -l <"$dir/error.out")" 2
  cat "$dir/error.out"
  start_agent
  expect "the default" "$(search-limit)" 10
  search-limit set 25 600
  expect "the value" "$(search-limit)" 25
  run search-limit watch
  await search-limit ': 25$'
  search-limit set 30
  await search-limit ': 30$'
  finish search-limit
}

example-observation-loop() {
  run observation-loop
  await observation-loop '^“Welcome”, loading, error: '
  start_agent
  await observation-loop '^“Welcome”$'
  larder set banner '{"text": "Closed", "isVisible": true}' >/dev/null
  await observation-loop '^“Closed”$'
  larder set banner.text 5 >/dev/null
  await observation-loop '^“Closed”, error: '
  finish observation-loop
}

example-cross-platform() {
  run follow-settings
  await follow-settings '^at most 10 results of localhost$'
  start_agent
  larder set search.hosts '["a", "b"]' >/dev/null
  await follow-settings '^at most 10 results of a, b$'
  larder set search.limit '"x"' >/dev/null
  await follow-settings '^the last good settings stay in use: '
  larder set search.limit 25 >/dev/null
  await follow-settings '^at most 25 results of a, b$'
  stop_agent
  start_agent
  larder set search.limit 30 >/dev/null
  await follow-settings '^at most 30 results of a, b$'
  finish follow-settings
}

example-configuration-reader() {
  start_agent
  larder set search.limit 30 >/dev/null
  run follow-limit
  await follow-limit '^limit: 30$'
  stop_agent
  start_agent
  larder set search.limit '"x"' >/dev/null
  larder set search.limit 35 >/dev/null
  await follow-limit '^limit: 35$'
  finish follow-limit
  export SEARCH_LIMIT=5
  run follow-limit
  await follow-limit '^limit: 5$'
  finish follow-limit
  unset SEARCH_LIMIT
}

example-hummingbird-server() {
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  run hummingbird-server "$port"
  await_greeting 'Hello, Ada!'
  start_agent
  larder set greeting '{"text": "Good morning", "exclamationMarks": 3}' >/dev/null
  await_greeting 'Good morning, Ada!!!'
  larder set greeting.exclamationMarks many >/dev/null
  await hummingbird-server 'the last valid greeting stays in use'
  stop_agent
  await_greeting 'Good morning, Ada!!!'
  kill "$program"
  status=0
  wait "$program" || status=$?
  program=''
  expect "the exit status of hummingbird-server after SIGTERM" "$status" 0
  sed 's/^/hummingbird-server: /' "$dir/hummingbird-server.out"
}
greeting() { curl --silent --show-error --fail "http://127.0.0.1:$port/hello/Ada" 2>&1 || true; }
# Waits until hummingbird-server responds with a text.
await_greeting() { # TEXT
  for _ in $(seq 200); do
    [ "$(greeting)" = "$1" ] && return
    kill -0 "$program" 2>/dev/null || break
    sleep 0.1
  done
  fail "hummingbird-server responded '$(greeting)', not '$1'"
}

rm -rf "$scratch"
echo '{ namespaces: { default: {} } }' >"$dir/larder.json"
for name in "${examples[@]}"; do
  [[ " ${names[*]} " == *" $name "* ]] || continue
  build "$name"
  say "Running $name"
  "example-$name"
  if [ -n "$agent" ]; then stop_agent; fi
  rm -rf "$dir/state"
done
say "Done; built, and printed the expected output: ${names[*]}"
