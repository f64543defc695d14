#!/usr/bin/env bash
# Compiles the program of the package, .build/release/larderd, and gives it its other name, .build/names/larder. Everything that
# SwiftPM and the compiler write is below .build. Run it at the top of a checkout, or of the copy that packaging/build-deb.sh
# makes.
#
# Beside the flags of every release build, there are those of a package:
#
#   file prefixes        no path of the machine that built it is in the programs
#   no breadcrumbs       nor the paths of compiled C headers, whose names depend on the directory
#   no incremental code  nor a hash of all that was compiled, debug information included, which would show them, too
#   line tables only     the debug information says which line a function is in, as backtraces want it; the types of variables
#                        would make it, and the time to link, many times as large
#   stack protector, FORTIFY_SOURCE   for the C in it: BoringSSL, llhttp, zlib, our own few functions
set -euo pipefail
source contrib/release-flags.sh

scratch=$PWD/.build
export HOME=$scratch/home XDG_CACHE_HOME=$scratch/home/.cache TMPDIR=$scratch/tmp
mkdir -p "$HOME" "$TMPDIR"
# The environment of debhelper is for gcc; and what git finds above this directory is another repository's.
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS

arguments=(
  "${release_flags[@]}"
  --only-use-versions-from-resolved-file
  --scratch-path .build --cache-path .build/cache --config-path .build/config --security-path .build/security
  -Xswiftc -gline-tables-only -Xswiftc -file-prefix-map -Xswiftc "$PWD=." -Xswiftc -file-compilation-dir -Xswiftc .
  -Xswiftc -Xfrontend -Xswiftc -no-clang-module-breadcrumbs
  -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen
  -Xcc "-ffile-prefix-map=$PWD=." -Xcc -fstack-protector-strong -Xcc -D_FORTIFY_SOURCE=2 -Xcc -gline-tables-only
)
swift build "${arguments[@]}" --product larderd
# Started by this name it is the command line.
mkdir -p .build/names
ln -sf ../release/larderd .build/names/larder
