#!/usr/bin/env bash
# Makes the manual pages and the completions for shells from the programs themselves.
#
#   packaging/build-docs.sh LARDER LARDERD OUTDIR
#
# OUTDIR/man gets the pages, OUTDIR/completions the files bash/NAME, zsh/_NAME and fish/NAME.fish of both programs. The day in
# the pages is that of SOURCE_DATE_EPOCH, where it is set. With mandoc and man installed each page is checked.
set -euo pipefail
[ $# -eq 3 ] || { sed -n '4p' "$0" | cut -c5- >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
out=$3

rm -rf "$out/man" "$out/completions"
mkdir -p "$out/completions"/{bash,zsh,fish}
"$here/man/generate.py" "$1" "$2" "$out/man"
for name in larder larderd; do
  if [ "$name" = larder ]; then program=$1; else program=$2; fi
  "$program" --generate-completion-script bash >"$out/completions/bash/$name"
  "$program" --generate-completion-script zsh >"$out/completions/zsh/_$name"
  "$program" --generate-completion-script fish >"$out/completions/fish/$name.fish"
done

wrong=
for page in "$out"/man/*; do
  # A page of one line leads to another.
  [ "$(wc -l <"$page")" -gt 1 ] || continue
  if command -v mandoc >/dev/null; then
    problems=$(mandoc -T lint -W warning "$page" 2>&1) || wrong+="$problems"$'\n'
  fi
  if command -v man >/dev/null && command -v groff >/dev/null; then
    problems=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null) || true
    [ -z "$problems" ] || wrong+="$page: $problems"$'\n'
  fi
done
if [ -n "$wrong" ]; then
  printf 'a manual page is not as it should be:\n%s' "$wrong" >&2
  exit 1
fi
