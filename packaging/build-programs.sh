#!/usr/bin/env bash
# Compiles the programs of the packages, .build/release/larderd and .build/release/larder-http, and links the second name of
# larderd, .build/names/larder, to it. SwiftPM and the compiler write only below .build. Run it at the top of a checkout, or of the copy that packaging/build-deb.sh makes.
#
# A package needs these flags in addition to those of every release build. The first three make builds reproducible:
#
#   file prefixes        keep the paths of the build machine out of the program
#   no breadcrumbs       keep out the paths of compiled C headers, whose names depend on the directory
#   no incremental code  keep out a hash of the compiled code, which includes debug information and therefore the paths
#   line tables only     enough debug information for backtraces; with the types of variables, its size and the time to link
#                        would be many times as large
#   stack protector, FORTIFY_SOURCE   for C code: BoringSSL, llhttp, zlib and a few functions of Larder
set -euo pipefail
source contrib/release-flags.sh

scratch=$PWD/.build
export HOME=$scratch/home XDG_CACHE_HOME=$scratch/home/.cache TMPDIR=$scratch/tmp
mkdir -p "$HOME" "$TMPDIR"
# debhelper sets these variables for gcc.
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
swift build "${arguments[@]}" --product larder-http
# The program is the command line tool if it is started by the name larder.
mkdir -p .build/names
ln -sf ../release/larderd .build/names/larder
