#!/usr/bin/env bash
# Fails if a dependency that is linked into the programs is missing in debian/copyright.
set -euo pipefail
status=0
for name in $(packaging/linked-packages.sh); do
  if ! grep -qF ".build/checkouts/$name/*" debian/copyright; then
    echo "debian/copyright does not mention $name, which is linked into the programs; add it" >&2
    status=1
  fi
done
exit "$status"
