#!/usr/bin/env bash
# Prints the names of the packages, one a line, of which the program that was compiled has something in them.
set -euo pipefail
# Each module of a package has a directory of this name among what was linked.
modules=$(cat .build/release/larderd.product/Objects.LinkFileList |
  sed -nE 's|.*/release/([^/]+)\.build/.*|\1|p' | LC_ALL=C sort -u)
for checkout in .build/checkouts/*/; do
  name=$(basename "$checkout")
  for module in $modules; do
    for sources in "$checkout"Sources/"$module" "$checkout"Sources/*/"$module"; do
      if [ -d "$sources" ]; then
        echo "$name"
        continue 3
      fi
    done
  done
done
