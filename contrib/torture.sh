#!/usr/bin/env bash
# Tests agents with damaged files, broken disks and failing system calls. Prints a table of attempts, survived and lost.
#
#   contrib/torture.sh [--quick] [--larderd FILE] [--minutes N] [NAME ...]
#
# --quick      fewer attempts of each kind, in a few minutes, as CI does
# --larderd    the program to test (default: the newest of .build/release and .build/debug)
# --minutes    duration of the soak test (default: 20)
# NAME         run only these scripts of contrib/torture, such as disk or syscalls
#
# Each script of contrib/torture can also run alone; see its --help. Mounting disks needs root; without root, a script reports
# what it skips. Exits with status 1 if anything was lost.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=no
larderd=()
minutes=20
names=()
while [ "$#" -gt 0 ]; do
  case "$1" in
    --quick) quick=yes ;;
    --larderd) larderd=(--larderd "$2"); shift ;;
    --minutes) minutes=$2; shift ;;
    --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) echo "torture.sh: unknown option \"$1\"; see --help" >&2; exit 64 ;;
    *) names+=("${1%.py}") ;;
  esac
  shift
done
contrib/install-needs.sh python3 gcc libc6-dev strace util-linux e2fsprogs mount

if [ "${#names[@]}" -eq 0 ]; then
  for script in contrib/torture/*.py; do
    if [ -x "$script" ]; then names+=("$(basename "$script" .py)"); fi
  done
fi

output=$(mktemp -t larder-torture.XXXXXX)
trap 'rm -f "$output"' EXIT
failed=()
for name in "${names[@]}"; do
  options=(${larderd[@]+"${larderd[@]}"})
  if [ "$quick" = yes ]; then
    options+=(--quick)
  elif [ "$name" = soak ]; then
    options+=(--minutes "$minutes")
  fi
  printf '\n== %s (%s)\n' "$name" "$(date +%T)"
  "contrib/torture/$name.py" ${options[@]+"${options[@]}"} 2>&1 | tee -a "$output" || failed+=("$name")
done

printf '\n== results\n'
grep -E '^SKIPPED ' "$output" || true
awk -F '\t' '
  $1 == "torture" { printf "%-62s %9d attempts %9d survived %5d lost\n", $2, $3, $4, $5; rows++; lost += $5 }
  END {
    if (!rows) { print "no attempts were recorded"; exit 1 }
    print "\nlost: " lost + 0
    exit lost > 0
  }' "$output" || failed+=("results")
if [ "${#failed[@]}" -gt 0 ]; then
  echo "torture.sh: these scripts failed: ${failed[*]}" >&2
  exit 1
fi
