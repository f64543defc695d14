# shellcheck shell=bash
# The compiler flags of release builds, for other scripts to source: swift build "${release_flags[@]}" --product NAME
#
#   --static-swift-stdlib              the program needs no installed Swift runtime, and calls into it are faster
#   -use-ld=lld                        the toolchain's linker, which the next options need; code and data of larderd take 26 MB
#                                      instead of 33, of which 20 MB instead of 24 are in memory at rest
#   pack-relative-relocs               reduces relocations from 2 MB to 17 KB (needs glibc 2.36 or later)
#   --no-export-dynamic                no dynamic symbol table: there are no plugins
#   --icf=safe                         merges identical functions
#   relro, now                         the loader resolves all symbols, and makes its tables read-only, before main starts
#   --as-needed                        does not link libraries that are not used
#   --disable-local-rpath              libraries come from the system, never from the program's directory
# shellcheck disable=SC2034
release_flags=(
    -c release --static-swift-stdlib -Xswiftc -use-ld=lld
    -Xlinker -z -Xlinker pack-relative-relocs -Xlinker --no-export-dynamic -Xlinker --icf=safe
    -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now -Xlinker --as-needed --disable-local-rpath
)
