#!/usr/bin/env bash
# Prints the notices of the dependencies that are linked into the programs, as section 4 (d) of the Apache License requires.
set -euo pipefail
for name in $(packaging/linked-packages.sh); do
  for file in .build/checkouts/"$name"/NOTICE*; do
    [ -e "$file" ] || continue
    printf '==== %s ====\n\n' "$name"
    cat "$file"
    echo
  done
done
