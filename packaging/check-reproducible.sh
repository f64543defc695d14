#!/usr/bin/env bash
# Builds the package twice, in two directories, and fails where the two differ in a single byte.
#
#   packaging/check-reproducible.sh [PACKAGE]
#
# With the path of a package that was built before from the same commit, only the second is built. With diffoscope installed it
# says what differs.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

first=${1:-}
if [ -z "$first" ]; then
  packaging/build-deb.sh --out "$work/first"
  first=$(ls "$work"/first/larder_*.deb)
fi
# Another directory, of another length; and the programs' clock and language differ, too.
other=$work/a/directory/with-quite-another-name
git -c safe.directory="$PWD" clone --quiet . "$other"
(cd "$other" && TZ=Pacific/Chatham LC_ALL=C packaging/build-deb.sh --out "$work/second")
status=0
for second in "$work"/second/*.deb; do
  before=$(dirname "$first")/$(basename "$second")
  if cmp "$before" "$second"; then
    echo "$(basename "$second"): the same, byte for byte: $(sha256sum <"$second" | cut -c1-16)"
  else
    status=1
    if command -v diffoscope >/dev/null; then diffoscope --max-report-size 200000 "$before" "$second" || true; fi
  fi
done
exit "$status"
