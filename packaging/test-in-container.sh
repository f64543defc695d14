#!/usr/bin/env bash
# Boots Debian with systemd in a container, installs the package with the commands of README.md, and tests it: socket activation,
# rights, refreshes, reloads, crashes, the watchdog, an upgrade under load, and removal.
#
#   packaging/test-in-container.sh               build the package and test it
#   packaging/test-in-container.sh --deb FILE    test this package
#     --suite NAME           bookworm (Debian 12, default) or trixie (Debian 13)
#     --upgrade FILE         the package to upgrade to (default: the same content with a higher version)
#     --debug-program FILE   a debug build of larderd, for checks that need one (default: build it)
#     --image FILE           a tar file that keeps the container's root for later runs; created if it does not exist
#
# Needs root. Prints a table of the results. Exit status: 0 all checks passed, 1 a check failed, 2 invalid arguments, 77 this
# machine cannot run the container (the last line has the reason).
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
    echo "test-in-container.sh: unknown suite '$suite'; use bookworm or trixie" >&2
    exit 2
    ;;
esac
if [ -n "$upgrade" ] && [ -z "$deb" ]; then
  echo "test-in-container.sh: --upgrade requires --deb" >&2
  exit 2
fi

cannot() {
  echo "test-in-container.sh: cannot run the container: $*" >&2
  exit 77
}
[ "$(id -u)" -eq 0 ] || cannot "root is required"
contrib/install-needs.sh mmdebstrap systemd-container python3
packages=(
  systemd systemd-sysv dbus dbus-user-session libpam-systemd apparmor adduser sudo man-db procps      # a Debian host
  nginx-light socat curl openssl python3 autopkgtest dpkg-dev prometheus prometheus-node-exporter # what the checks use
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
  # The container and the host share AppArmor profiles.
  if [ -f "$work/profile" ]; then apparmor_parser --remove "$work/profile" 2>/dev/null || true; fi
  umount --lazy "$work" 2>/dev/null || true
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# Use a tmpfs if possible, because dpkg syncs thousands of temporary files.
mount -t tmpfs -o size=3G,mode=700 larder-container "$work" 2>/dev/null || true
note() { printf '%(%H:%M:%S)T %s\n' -1 "$*"; }

# --- packages
if [ -z "$deb" ]; then
  note "building the package"
  packaging/build-deb.sh --out "$work/first"
  deb=$(echo "$work"/first/larder_*.deb)
fi
if [ -z "$upgrade" ]; then
  # The upgrade needs a package with a higher version, but the program in it can be the same.
  upgrade=$work/larder_upgrade.deb
  dpkg-deb --raw-extract "$deb" "$work/second"
  sed -i 's/^Version: .*/&+upgrade/' "$work/second/DEBIAN/control"
  dpkg-deb --root-owner-group -Zgzip --build "$work/second" "$upgrade" >/dev/null
  rm -rf "$work/second"
fi
if [ -z "$debug" ]; then
  note "building a debug build of larderd"
  SWIFT_DETERMINISTIC_HASHING=1 swift build --product larderd 2>&1 | tail -n 1
  debug=$(swift build --show-bin-path)/larderd
fi

# --- root of the container; there is no network inside, so the dependencies of the package are installed now
mapfile -t depends < <(dpkg-deb --field "$deb" Pre-Depends Depends | sed 's/^[A-Za-z-]*: //; s/,/\n/g' |
  sed 's/|.*//; s/(.*//; s/:any//; s/ //g' | grep -v '^$')
make_root() {
  mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io --include="$(IFS=,; echo "${packages[*]},${depends[*]}")" "$suite" "$1"
}
root=$work/root
mkdir -p "$root" "$work/results/first" "$work/results/second"
if [ -n "$image" ]; then
  if [ ! -s "$image" ]; then
    note "creating $image"
    make_root "$image"
  fi
  tar -C "$root" -xf "$image" --exclude='./dev/*'
  found=$(sed -n 's/^VERSION_CODENAME=//p' "$root/etc/os-release")
  if [ "$found" != "$suite" ]; then
    echo "test-in-container.sh: $image has the suite '$found', not '$suite'; use --suite $found or another --image" >&2
    exit 2
  fi
else
  note "installing $release"
  make_root "$root" || cannot "mmdebstrap failed"
fi

cp "$deb" "$work/results/first/"
name=$(basename "$deb")
gateway=$(dirname "$deb")/larder-http_${name#larder_}
[ ! -e "$gateway" ] || cp "$gateway" "$work/results/first/"
cp "$upgrade" "$work/results/second/"
cp contrib/guides/*.md "$work/results/"
cp README.md "$work/results/" # instead of the one of the guides
cp -r contrib/observability "$work/results/"
install -d -m 755 "$work/test"
install -m 755 packaging/container/*.py "$work/test/"
install -D -m 644 -t "$work/test/larder_client" contrib/python/src/larder_client/*.py
install -m 755 packaging/container/container-test.service "$root/etc/systemd/system/"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../container-test.service "$root/etc/systemd/system/multi-user.target.wants/"
# policy-rc.d, if the image has one, keeps packages from starting their services. The tests need them to start.
rm -f "$root/usr/sbin/policy-rc.d"
: >"$root/etc/machine-id"
echo larder-test >"$root/etc/hostname"
printf '127.0.0.1 localhost larder-test\n' >"$root/etc/hosts"

binds=(
  --bind="$work/results:/results" --bind-ro="$work/test:/test"
  --bind-ro="$(readlink -f "$debug"):/opt/larder-debug/larderd"
)
if [ -d packaging/debian/tests ]; then binds+=(--bind-ro="$PWD/packaging/debian:/package/debian"); fi
# A debug build uses the Swift libraries of the toolchain.
runtime=$(readelf --dynamic "$debug" | sed -n 's/.*runpath: \[\([^]:]*\).*/\1/p')
if [ -d "$runtime" ]; then binds+=(--bind-ro="$runtime"); fi
if [ -d /sys/kernel/security/apparmor ]; then
  binds+=(--bind=/sys/kernel/security --capability=CAP_MAC_ADMIN)
  dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards './etc/apparmor.d/*larderd' >"$work/profile" 2>/dev/null || true
fi
spawn=(
  # Use control groups version 2 even if the host uses version 1. With version 1, systemd is notified late that a group is
  # empty, and may remove the group while the next process of the service starts.
  env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
  systemd-nspawn --quiet --directory="$root" --machine="$machine" --private-network --register=no --keep-unit
  --console=read-only --link-journal=no
)
"${spawn[@]}" --as-pid2 /bin/true </dev/null >"$work/probe" 2>&1 || cannot "systemd-nspawn failed: $(tail -n 1 "$work/probe")"

# --- test
note "booting the container"
: >"$work/results/output"
tail -n +1 --follow "$work/results/output" &
follow=$!
timeout --kill-after=30 480 "${spawn[@]}" "${binds[@]}" --boot systemd.show_status=0 \
  </dev/null >"$work/console" 2>&1 &
nspawn=$!
wait "$nspawn" || true
nspawn=''
sleep 0.5 # lets tail print the rest of the output
kill "$follow"
wait "$follow" 2>/dev/null || true
follow=''

if [ ! -s "$work/results/output" ]; then
  tail -n 30 "$work/console" >&2
  cannot "systemd did not start in the container; see its console above"
fi
if [ ! -f "$work/results/status" ]; then
  tail -n 30 "$work/console" >&2
  echo "test-in-container.sh: the test did not finish; see the console above" >&2
  exit 1
fi
note "done"
exit "$(cat "$work/results/status")"
