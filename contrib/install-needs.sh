#!/usr/bin/env bash
# Installs those of the named Debian packages that are missing, and prints their names.
#
#   contrib/install-needs.sh libsystemd-dev socat
#
# Run it as root or with sudo. Also checks that a Swift toolchain, which Debian does not have, is installed.
set -euo pipefail

missing=()
for package in "$@"; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing: ${missing[*]}" >&2
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; install them, or run this as root" >&2; exit 1; }
    sudo=(sudo)
  fi
  log=$(mktemp)
  # Packages must not start their services: the scripts that need the packages start servers themselves, on loopback.
  policy=/usr/sbin/policy-rc.d
  made_policy=no
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
    "${sudo[@]}" chmod 755 "$policy"
    made_policy=yes
  fi
  status=0
  { "${sudo[@]}" apt-get update &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 || status=$?
  if [ "$made_policy" = yes ]; then "${sudo[@]}" rm -f "$policy"; fi
  if [ "$status" -ne 0 ]; then
    tail -n 20 "$log" >&2
    exit "$status"
  fi
  rm -f "$log"
fi

command -v swift >/dev/null || {
  echo "swift is not in PATH; install toolchain 6.2 or newer from https://www.swift.org/install/linux/" >&2
  exit 1
}
