#!/usr/bin/env bash
# Boots Debian with a real systemd in a container, installs the package there as README.md says, and shows that it
# does what it promises: activation, rights, refreshes, reloads, crashes, the watchdog, an upgrade under load, removal.
#
#   packaging/test-in-container.sh               build the package and test it
#   packaging/test-in-container.sh --deb FILE    test this one
#     --suite NAME           bookworm (Debian 12, the default) or trixie (Debian 13)
#     --upgrade FILE         the package to upgrade to; default: the same content under a higher version
#     --debug-program FILE   a debug build of larderd, for what only that can do; built if none is given
#     --image FILE           a tar of the container's root, of that suite, made if it does not exist; else a new one each time
#
# Needs root. Prints a table at the end. Exit status: 0 all passed, 1 something failed, 2 wrong usage, 77 no container
# can run here (the last line says why).
set -euo pipefail
cd "$(dirname "$0")/.."

deb='' upgrade='' debug='' image='' suite=bookworm
while [ "$#" -gt 0 ]; do
  case "$1" in
    --deb) deb=${2:?} ;;
    --upgrade) upgrade=${2:?} ;;
    --debug-program) debug=${2:?} ;;
    --image) image=${2:?} ;;
    --suite) suite=${2:?} ;;
    -h | --help)
      sed -n '2,14s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "test-in-container.sh: unknown argument '$1'; try --help" >&2
      exit 2
      ;;
  esac
  shift 2
done
case "$suite" in
  bookworm) release='Debian 12' ;;
  trixie) release='Debian 13' ;;
  *)
    echo "test-in-container.sh: there is no suite '$suite'; choose bookworm or trixie" >&2
    exit 2
    ;;
esac
if [ -n "$upgrade" ] && [ -z "$deb" ]; then
  echo "test-in-container.sh: --upgrade goes with --deb" >&2
  exit 2
fi

cannot() {
  echo "test-in-container.sh: no container can run here: $*" >&2
  exit 77
}
[ "$(id -u)" -eq 0 ] || cannot "it takes root"
contrib/install-needs.sh mmdebstrap systemd-container python3
packages=(
  systemd systemd-sysv dbus dbus-user-session libpam-systemd apparmor adduser sudo man-db procps # a Debian host
  nginx-light socat python3 autopkgtest dpkg-dev                                                # what the checks use
)

work=$(mktemp -d -t larder-container.XXXXXX)
machine="larder-test-$$"
nspawn='' follow=''
stop() {
  local status=$?
  trap - EXIT
  if [ -n "$nspawn" ]; then
    kill -TERM "$nspawn" 2>/dev/null || true # timeout(1) passes it on, and systemd-nspawn powers the container off
    wait "$nspawn" 2>/dev/null || true
  fi
  if [ -n "$follow" ]; then
    kill "$follow" 2>/dev/null || true
    wait "$follow" 2>/dev/null || true
  fi
  # A profile that the container loaded is the host's as well.
  if [ -f "$work/profile" ]; then apparmor_parser --remove "$work/profile" 2>/dev/null || true; fi
  umount --lazy "$work" 2>/dev/null || true
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
# In memory, where it can be: dpkg syncs thousands of files that nobody will miss.
mount -t tmpfs -o size=3G,mode=700 larder-container "$work" 2>/dev/null || true
trap 'exit 143' TERM
note() { printf '%(%H:%M:%S)T %s\n' -1 "$*"; }

# --- the packages
if [ -z "$deb" ]; then
  note "building the package"
  packaging/build-deb.sh --out "$work/first"
  deb=$(echo "$work"/first/larder_*.deb)
fi
if [ -z "$upgrade" ]; then
  # The upgrade needs another version, not another program.
  upgrade=$work/larder_upgrade.deb
  dpkg-deb --raw-extract "$deb" "$work/second"
  sed -i 's/^Version: .*/&+upgrade/' "$work/second/DEBIAN/control"
  dpkg-deb --root-owner-group -Zgzip --build "$work/second" "$upgrade" >/dev/null
  rm -rf "$work/second"
fi
if [ -z "$debug" ]; then
  note "building larderd for debugging"
  swift build --product larderd 2>&1 | tail -n 1
  debug=$(swift build --show-bin-path)/larderd
fi

# --- the container's root. There is no network inside: what the package depends on is installed beforehand.
mapfile -t depends < <(dpkg-deb --field "$deb" Pre-Depends Depends | sed 's/^[A-Za-z-]*: //; s/,/\n/g' |
  sed 's/|.*//; s/(.*//; s/:any//; s/ //g' | grep -v '^$')
make_root() {
  mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io --include="$(IFS=,; echo "${packages[*]},${depends[*]}")" "$suite" "$1"
}
root=$work/root
mkdir -p "$root" "$work/results/first" "$work/results/second"
if [ -n "$image" ]; then
  if [ ! -s "$image" ]; then
    note "making $image"
    make_root "$image"
  fi
  tar -C "$root" -xf "$image" --exclude='./dev/*'
  found=$(sed -n 's/^VERSION_CODENAME=//p' "$root/etc/os-release")
  if [ "$found" != "$suite" ]; then
    echo "test-in-container.sh: $image is of the suite '$found', not '$suite'; give --suite $found, or another --image" >&2
    exit 2
  fi
else
  note "making a $release"
  make_root "$root" || cannot "mmdebstrap failed"
fi

cp "$deb" "$work/results/first/"
cp "$upgrade" "$work/results/second/"
cp README.md contrib/guides/install.md "$work/results/"
install -d -m 755 "$work/test"
install -m 755 packaging/container/*.py contrib/larder_client.py "$work/test/"
install -m 755 packaging/container/container-test.service "$root/etc/systemd/system/"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../container-test.service "$root/etc/systemd/system/multi-user.target.wants/"
# Images of minbase may start a daemon when its package is installed; there, too, units decide.
rm -f "$root/usr/sbin/policy-rc.d"
: >"$root/etc/machine-id"
echo larder-test >"$root/etc/hostname"
printf '127.0.0.1 localhost larder-test\n' >"$root/etc/hosts"

binds=(
  --bind="$work/results:/results" --bind-ro="$work/test:/test"
  --bind-ro="$(readlink -f "$debug"):/opt/larder-debug/larderd"
)
if [ -d packaging/debian/tests ]; then binds+=(--bind-ro="$PWD/packaging/debian:/package/debian"); fi
# A debug build has its Swift libraries where the toolchain is.
runtime=$(readelf --dynamic "$debug" | sed -n 's/.*runpath: \[\([^]:]*\).*/\1/p')
if [ -d "$runtime" ]; then binds+=(--bind-ro="$runtime"); fi
if [ -d /sys/kernel/security/apparmor ]; then
  binds+=(--bind=/sys/kernel/security --capability=CAP_MAC_ADMIN)
  dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards './etc/apparmor.d/*larderd' >"$work/profile" 2>/dev/null || true
fi
spawn=(
  # Also where the host is not yet at version 2 of control groups: with version 1 systemd learns late that a group is empty,
  # and may remove it from under the next process of the service.
  env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
  systemd-nspawn --quiet --directory="$root" --machine="$machine" --private-network --register=no --keep-unit
  --console=read-only --link-journal=no
)
"${spawn[@]}" --as-pid2 /bin/true </dev/null >"$work/probe" 2>&1 || cannot "systemd-nspawn says: $(tail -n 1 "$work/probe")"

# --- the test
note "booting it"
: >"$work/results/output"
tail -n +1 --follow "$work/results/output" &
follow=$!
timeout --kill-after=30 480 "${spawn[@]}" "${binds[@]}" --boot systemd.show_status=0 \
  </dev/null >"$work/console" 2>&1 &
nspawn=$!
wait "$nspawn" || true
nspawn=''
sleep 0.5 # tail looks twice a second
kill "$follow"
wait "$follow" 2>/dev/null || true
follow=''

if [ ! -s "$work/results/output" ]; then
  tail -n 30 "$work/console" >&2
  cannot "systemd did not come up in it (its console is above)"
fi
if [ ! -f "$work/results/status" ]; then
  tail -n 30 "$work/console" >&2
  echo "test-in-container.sh: the test did not come to its end" >&2
  exit 1
fi
note "done"
exit "$(cat "$work/results/status")"
