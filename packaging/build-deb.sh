#!/usr/bin/env bash
# Builds the Debian packages of this checkout: larder_VERSION_ARCHITECTURE.deb, larder-dbgsym,
# larder-http and larder-http-dbgsym likewise, and python3-larder-client_VERSION_all.deb.
#
#   packaging/build-deb.sh [--version V] [--out DIR] [--reuse]
#
#   --version V   the version of the package and of the agent (default: that of packaging/debian/changelog)
#   --out DIR     the directory for the packages (default: packaging/out)
#   --reuse       compile only files that have changed since the last build
#
# The build uses a copy of the files that git tracks, in packaging/out/build. It needs a Swift toolchain, and downloads the
# dependencies in the versions of packaging/dependencies.json.
set -euo pipefail
cd "$(dirname "$0")/.."

version='' out=packaging/out reuse=no
while [ $# -gt 0 ]; do
  case $1 in
    --version) version=${2:?--version needs a version}; shift 2 ;;
    --out) out=${2:?--out needs a directory}; shift 2 ;;
    --reuse) reuse=yes; shift ;;
    *) sed -n '5p' "$0" | cut -c5- >&2; exit 2 ;;
  esac
done

contrib/install-needs.sh build-essential chrpath debhelper dh-apparmor dh-python dpkg-dev libpcre2-dev libsqlite3-dev \
  libsystemd-dev nettle-dev pkg-config pybuild-plugin-pyproject python3 python3-setuptools zlib1g-dev

checkout=$PWD
tree=$PWD/packaging/out/build/larder
mkdir -p packaging/out/build
# Allow only one build at a time.
exec 9>packaging/out/build/lock
flock 9
[ "$reuse" = yes ] || rm -rf "$tree"
mkdir -p "$tree" "$out"
out=$(cd "$out" && pwd)

# Update the copy: write only files that are newer, so that --reuse compiles only these, and remove files that no longer exist.
files() { git -c safe.directory="$PWD" ls-files -z "$@"; }
copy() { xargs -0 cp --update --preserve=mode,timestamps --parents --target-directory="$1"; }
find "$tree" -mindepth 1 -maxdepth 1 ! -name .build ! -name Sources ! -name Tests -exec rm -rf {} +
if [ -d "$tree/Sources" ]; then
  (cd "$tree" && find Sources Tests -type f -print0) | LC_ALL=C sort -z >"$tree/../there"
  files Sources Tests | LC_ALL=C sort -z | LC_ALL=C comm -z -23 "$tree/../there" - | (cd "$tree" && xargs -0 -r rm -f)
fi
files ':!Sources/LarderProtocol/Version.swift' | copy "$tree"
cp -a packaging/dependencies.json "$tree/Package.resolved"
cp -a packaging/debian "$tree/debian"

source_version=$(sed -n 's/^package let larderVersion = "\(.*\)"/\1/p' Sources/LarderProtocol/Version.swift)
cd "$tree"
current=$(dpkg-parsechangelog -S Version)
if [ -n "$version" ] && [ "$version" != "$current" ]; then
  # The time of the previous changelog entry plus one second, so that the package does not depend on the clock.
  moment=$(($(dpkg-parsechangelog -S Timestamp) + 1))
  {
    printf 'larder (%s) bookworm; urgency=medium\n\n  * Built as this version.\n\n -- %s  %s\n\n' \
      "$version" "$(dpkg-parsechangelog -S Maintainer)" "$(date -Ru -d "@$moment")"
    cat debian/changelog
  } >debian/changelog.new
  mv debian/changelog.new debian/changelog
elif [ "$source_version" != "$current" ]; then
  echo "packaging/debian/changelog has version $current, Sources/LarderProtocol/Version.swift has $source_version; make them equal" >&2
  exit 1
fi
version=$(dpkg-parsechangelog -S Version)
# Write Version.swift only if its content changes, because a newer file causes everything that depends on it to be
# recompiled.
sed "s/^package let larderVersion = .*/package let larderVersion = \"$version\"/" \
  "$checkout/Sources/LarderProtocol/Version.swift" >../Version.swift
cmp -s ../Version.swift Sources/LarderProtocol/Version.swift || cp ../Version.swift Sources/LarderProtocol/Version.swift

dpkg-buildpackage --build=binary --no-sign
architecture=$(dpkg-architecture -qDEB_HOST_ARCH)
for package in {larder,larder-dbgsym,larder-http,larder-http-dbgsym}"_${version}_$architecture" "python3-larder-client_${version}_all"; do
  mv "../$package.deb" "$out/"
  echo "$out/$package.deb"
done
