#!/usr/bin/env bash
# Installs the named Debian packages that are missing, and says so only if it does something.
#
#   contrib/install-needs.sh libsystemd-dev socat
#
# Run as root, or with sudo at hand. Checks that a Swift toolchain is there; that one comes from swift.org, not from apt.
set -euo pipefail

missing=()
for package in "$@"; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing: ${missing[*]}" >&2
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "run this as root, or install: ${missing[*]}" >&2; exit 1; }
    sudo=(sudo)
  fi
  log=$(mktemp)
  # Services that a package would start are not wanted: the scripts start their own, on the loopback.
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
  echo "there is no swift on the PATH; install a toolchain of 6.2 or newer from https://www.swift.org/install/linux/" >&2
  exit 1
}
