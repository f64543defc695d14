#!/usr/bin/env bash
# Builds the package twice, in different directories, and fails if the results differ.
#
#   packaging/check-reproducible.sh [PACKAGE]
#
# PACKAGE is an existing package of the same commit, which replaces the first build; the others must be in the same directory.
# If diffoscope is installed, it prints the differences.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

first=${1:-}
if [ -z "$first" ]; then
  packaging/build-deb.sh --out "$work/first"
  first=$(ls "$work"/first/larder_*.deb)
fi
# Use a path of another length, another time zone and another language.
other=$work/another/directory/with-a-longer-name
git -c safe.directory="$PWD" clone --quiet . "$other"
(cd "$other" && TZ=Pacific/Chatham LC_ALL=C packaging/build-deb.sh --out "$work/second")
status=0
for second in "$work"/second/*.deb; do
  before=$(dirname "$first")/$(basename "$second")
  if cmp "$before" "$second"; then
    echo "$(basename "$second"): identical: $(sha256sum <"$second" | cut -c1-16)"
  else
    status=1
    if command -v diffoscope >/dev/null; then diffoscope --max-report-size 200000 "$before" "$second" || true; fi
  fi
done
exit "$status"
