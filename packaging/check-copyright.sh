#!/usr/bin/env bash
# Fails where debian/copyright leaves out a package that is linked into the programs.
set -euo pipefail
status=0
for name in $(packaging/linked-packages.sh); do
  if ! grep -qF ".build/checkouts/$name/*" debian/copyright; then
    echo "debian/copyright says nothing about $name, which is linked into the programs; add it" >&2
    status=1
  fi
done
exit "$status"
