#!/usr/bin/env bash
# Generates the manual pages and the shell completions with the programs.
#
#   packaging/build-docs.sh LARDER LARDERD OUTDIR
#
# Writes the pages to OUTDIR/man, and the completions of both programs to OUTDIR/completions, as bash/NAME, zsh/_NAME and
# fish/NAME.fish. If SOURCE_DATE_EPOCH is set, it is the date of the pages. If mandoc or man is installed, it checks each page.
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

failures=
for page in "$out"/man/*; do
  # A page of one line only refers to another page, so it is not checked.
  [ "$(wc -l <"$page")" -gt 1 ] || continue
  if command -v mandoc >/dev/null; then
    problems=$(mandoc -T lint -W warning "$page" 2>&1) || failures+="$problems"$'\n'
  fi
  if command -v man >/dev/null && command -v groff >/dev/null; then
    problems=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null) || true
    [ -z "$problems" ] || failures+="$page: $problems"$'\n'
  fi
done
if [ -n "$failures" ]; then
  printf 'manual pages have errors:\n%s' "$failures" >&2
  exit 1
fi
