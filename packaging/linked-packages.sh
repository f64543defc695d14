#!/usr/bin/env bash
# Prints the names of the dependencies that are linked into the compiled program, one per line.
set -euo pipefail
# Each path in the list of linked object files contains the directory NAME.build of its module.
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
