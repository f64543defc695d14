# shellcheck shell=bash
# The compiler flags of release builds, for other scripts to source: swift build "${release_flags[@]}" --product NAME
#
#   --static-swift-stdlib              no Swift runtime to install beside the program, and faster calls into it
#   -use-ld=lld                        the toolchain's own linker, for what follows; with it larderd has 26 MB of code and
#                                      data instead of 33, and 20 MB of it in memory at rest instead of 24
#   pack-relative-relocs               2 MB of relocations become 17 KB (glibc 2.36 and later)
#   --no-export-dynamic, --icf=safe    no table of symbols for plugins that do not exist; equal functions once
#   relro, now                         tables of the linker are read-only before main begins
#   --as-needed                        no library that nothing is used of
#   --disable-local-rpath              libraries come from the system, never from the program's own directory
# shellcheck disable=SC2034
release_flags=(
    -c release --static-swift-stdlib -Xswiftc -use-ld=lld
    -Xlinker -z -Xlinker pack-relative-relocs -Xlinker --no-export-dynamic -Xlinker --icf=safe
    -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now -Xlinker --as-needed --disable-local-rpath
)
