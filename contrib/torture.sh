#!/usr/bin/env bash
# Attacks agents with broken files and disks and with malformed input, and prints a table of what survived.
#
#   contrib/torture.sh [--quick] [--larderd FILE] [--minutes N] [NAME ...]
#
# --quick      some of each, in a few minutes, as CI does
# --larderd    the program; default: the newest of .build/release and .build/debug
# --minutes    how long the soak lasts (20)
# NAME         only these of contrib/torture, such as disk or syscalls
#
# Each script of contrib/torture can also be run on its own; its --help says what it does. Mounting disks needs root; a script
# reports what it skips without it. Exits with 1 if anything was lost.
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
    -*) echo "there is no option $1; see --help" >&2; exit 64 ;;
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
  words=(${larderd[@]+"${larderd[@]}"})
  if [ "$quick" = yes ]; then
    words+=(--quick)
  elif [ "$name" = soak ]; then
    words+=(--minutes "$minutes")
  fi
  printf '\n== %s (%s)\n' "$name" "$(date +%T)"
  "contrib/torture/$name.py" ${words[@]+"${words[@]}"} 2>&1 | tee -a "$output" || failed+=("$name")
done

printf '\n== what became of it\n'
grep -E '^SKIPPED ' "$output" || true
awk -F '\t' '
  $1 == "torture" { printf "%-62s %9d attempts %9d survived %5d lost\n", $2, $3, $4, $5; rows++; lost += $5 }
  END {
    if (!rows) { print "nothing was tried"; exit 1 }
    print "\nlost: " lost + 0
    exit lost > 0
  }' "$output" || failed+=("the table")
if [ "${#failed[@]}" -gt 0 ]; then
  echo "not everything survived: ${failed[*]}" >&2
  exit 1
fi
