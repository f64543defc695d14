#!/usr/bin/env bash
# Fuzzes the code that reads data from clients, servers and files.
#
#   contrib/fuzz/run.sh                      run every fuzzer for 20 seconds, two at a time
#   contrib/fuzz/run.sh --seconds 600        run every fuzzer for ten minutes
#   contrib/fuzz/run.sh json requests        run only these fuzzers
#   contrib/fuzz/run.sh --keep DIRECTORY ... keep the corpus in DIRECTORY, and start from it in the next run
#
# Prints for each fuzzer the number of runs and of code edges reached. An input that fails is saved in .build-fuzz/found;
# `.build-fuzz/NAME FILE` repeats it. Exits with status 1 if there was a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=20
keep=
names=()
while [ "$#" -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --keep) keep=$2; shift 2 ;;
    --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit ;;
    -*) echo "run.sh: unknown option \"$1\"; see --help" >&2; exit 2 ;;
    *) names+=("$1"); shift ;;
  esac
done
known=$(contrib/fuzz/build.sh --list)
if [ "${#names[@]}" -eq 0 ]; then mapfile -t names <<<"$known"; fi
for name in "${names[@]}"; do
  grep -qx "$name" <<<"$known" || { printf 'unknown fuzzer "%s"; use one of: %s\n' "$name" "${known//$'\n'/ }" >&2; exit 2; }
done

contrib/fuzz/build.sh

work=$(mktemp -d -t larder-fuzz.XXXXXX)
trap 'rm -rf "$work"' EXIT
contrib/fuzz/make-corpus.py "$work/seeds"
found=.build-fuzz/found
mkdir -p "$found"

fuzz() { # NAME
  local name=$1 corpus=${keep:-$work/corpus}/$1 options=()
  mkdir -p "$corpus"
  [ ! -e "contrib/fuzz/dictionaries/$name" ] || options+=("-dict=contrib/fuzz/dictionaries/$name")
  # Without leak detection, because it reports objects that Swift creates once and never frees.
  SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=detect_leaks=0 ".build-fuzz/$name" -max_total_time="$seconds" -timeout=30 \
    -rss_limit_mb=3000 -max_len=4096 -print_final_stats=1 "${options[@]}" -artifact_prefix="$found/$name-" \
    "$corpus" "$work/seeds/$name" >"$work/$name.log" 2>&1 && echo 0 >"$work/$name.status" || echo $? >"$work/$name.status"
}

running=0
for name in "${names[@]}"; do
  if [ "$running" -eq 2 ]; then wait -n; running=1; fi
  fuzz "$name" &
  running=$((running + 1))
done
wait

lost=0
for name in "${names[@]}"; do
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")
  edges=$(grep -oE 'cov: [0-9]+' "$work/$name.log" | tail -n 1 | cut -d' ' -f2)
  printf '%-10s %10s runs, %6s edges\n' "$name" "${runs:-0}" "${edges:-0}"
  if [ "$(cat "$work/$name.status")" -ne 0 ]; then
    lost=1
    grep -E 'Fatal error|ERROR: |SUMMARY|Test unit written|Base64' "$work/$name.log" >&2 || tail -n 20 "$work/$name.log" >&2
  fi
done
exit "$lost"
