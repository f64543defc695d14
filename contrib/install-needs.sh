#!/usr/bin/env bash
# Installs those of the named Debian packages that are missing.
#
#   contrib/install-needs.sh libsystemd-dev socat
#
# Run it as root or with sudo; it says what it will install before it calls sudo. Also checks that a Swift toolchain, which Debian
# does not have, is installed. Several calls at the same time wait for each other.
set -euo pipefail

# Prints the named packages that are not installed.
find_missing() { # PACKAGE...
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || printf '%s\n' "$package"
  done
}

mapfile -t missing < <(find_missing "$@")
if [ "${#missing[@]}" -gt 0 ]; then
  exec 9</var/lib/dpkg
  flock 9
  mapfile -t missing < <(find_missing "${missing[@]}") # another call may have installed them
fi
if [ "${#missing[@]}" -gt 0 ]; then
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; install them, or run this as root" >&2; exit 1; }
    sudo=(sudo)
  fi
  echo "installing: ${missing[*]}" >&2
  log=$(mktemp -t larder-install.XXXXXX)
  # Packages must not start their services: the scripts that need the packages start servers themselves, on loopback.
  # Only the test of this script sets the variable.
  policy=${LARDER_TEST_POLICY:-/usr/sbin/policy-rc.d} made_policy=no
  clean_up() {
    if [ "$made_policy" = yes ]; then "${sudo[@]}" rm -f "$policy"; fi
    rm -f "$log"
  }
  trap clean_up EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  if [ ! -e "$policy" ]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
    "${sudo[@]}" chmod 755 "$policy"
  fi
  status=0
  { "${sudo[@]}" apt-get update &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 </dev/null 9<&- || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 20 "$log" >&2
    exit "$status"
  fi
fi

command -v swift >/dev/null || {
  echo "swift is not in PATH; install toolchain 6.2 or newer from https://www.swift.org/install/linux/" >&2
  exit 1
}
