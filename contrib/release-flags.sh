# shellcheck shell=bash
# The compiler flags of release builds, for other scripts to source: swift build "${release_flags[@]}" --product NAME
#
#   --static-swift-stdlib              no Swift runtime to install beside the program, and faster calls into it
#   -enforce-exclusivity=unchecked     the compiler's static checks stay; the run-time ones cost on the event loop
# shellcheck disable=SC2034
release_flags=(-c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked)
