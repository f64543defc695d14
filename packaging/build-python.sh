#!/usr/bin/env bash
# Builds a wheel and an sdist of the Python client, larder_client. The same commit gives the same files.
#
#   packaging/build-python.sh [--out DIR]
#
#   --out DIR     the directory for the files (default: packaging/out)
#
# The build uses a copy of the files that git tracks, and installs its tools from PyPI into a temporary venv.
set -euo pipefail
cd "$(dirname "$0")/.."

out=packaging/out
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a directory}; shift 2 ;;
    *) sed -n '4p' "$0" | cut -c5- >&2; exit 2 ;;
  esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' contrib/python/src/larder_client/__init__.py)
if [ "$version" != "$(sed -n '1s/.*(\(.*\)).*/\1/p' packaging/debian/changelog)" ]; then
  echo "larder_client has version $version, packaging/debian/changelog has another one; make them equal" >&2
  exit 1
fi

work=$(mktemp -d -t larder-python.XXXXXX)
trap 'rm -rf "$work"' EXIT
git -c safe.directory="$PWD" ls-files -z contrib/python | xargs -0 cp --parents --target-directory="$work"
cp LICENSE "$work/contrib/python/"
SOURCE_DATE_EPOCH=$(git -c safe.directory="$PWD" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
find "$work/contrib" -exec touch --date "@$SOURCE_DATE_EPOCH" {} +
chmod -R u=rwX,go=rX "$work/contrib"

python3 -c 'import ensurepip' 2>/dev/null || contrib/install-needs.sh python3-venv
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet --disable-pip-version-check build==1.6.1 setuptools==80.9.0 wheel==0.45.1
"$work/tools/bin/python" -m build --no-isolation --outdir "$work/out" "$work/contrib/python" >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  exit 1
}
# The sdist is packed again, because setuptools gives the files in it the time of the build.
tar -C "$work" -xzf "$work/out/larder_client-$version.tar.gz"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "larder_client-$version" |
  gzip -n9 >"$work/out/larder_client-$version.tar.gz"
for file in "larder_client-$version-py3-none-any.whl" "larder_client-$version.tar.gz"; do
  mv "$work/out/$file" "$out/"
  echo "$out/$file"
done
