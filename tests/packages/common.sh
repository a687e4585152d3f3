# shellcheck shell=bash
# Functions for the tests of packages, to be sourced.
set -euo pipefail
# Enters its own mount namespace, so that mounts end with the script, even if it is killed.
[[ "$(readlink /proc/self/ns/mnt)" != "$(readlink /proc/$PPID/ns/mnt)" ]] || exec unshare --mount "$0" "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
packages=$PWD/build/packages
mkdir -p "$packages"
debian=$packages/bookworm
authorities=/etc/machine-authorities.crt

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

processes=()
mounts=()
place='' root=''
trap clean_up EXIT
clean_up() {
  ((${#processes[@]} == 0)) || kill -TERM "${processes[@]}" 2>/dev/null || true
  wait 2>/dev/null
  [[ -z $place ]] || rm -rf "$place"
  ((${#mounts[@]} == 0)) || umount --recursive "${mounts[@]}"
  [[ -z $root ]] || rm -rf --one-file-system "$root"
}

# make_place: sets $place to a new directory.
make_place() {
  place=$(mktemp -d)
  chmod 755 "$place"
}

# make_debian: makes a clean Debian 12 in $debian, unless it exists.
make_debian() {
  [[ -e $debian.complete ]] && return
  rm -rf --one-file-system "$debian"
  logged bookworm debootstrap --variant=minbase bookworm "$debian"
  rm -rf "$debian"/var/cache/apt/archives/*.deb "$debian"/var/lib/apt/lists/*
  # As in Debian's own images, dpkg does not sync after each file.
  echo force-unsafe-io >"$debian/etc/dpkg/dpkg.cfg.d/docker-apt-speedup"
  touch "$debian.complete"
}

# make_root NAME: sets $root to a copy of the clean Debian, with devices, host names and the
# certificate authorities that this machine trusts (for example, a proxy's authority).
make_root() {
  make_debian
  root=$packages/$1
  rm -rf --one-file-system "$root"
  cp -a "$debian" "$root"
  cp /etc/resolv.conf /etc/hosts "$root/etc"
  [[ ! -e /etc/ssl/certs/ca-certificates.crt ]] ||
    cp /etc/ssl/certs/ca-certificates.crt "$root$authorities"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mounts=("$root/proc" "$root/dev")
}

# inside [NAME=VALUE...] COMMAND...: runs the command as root in $root.
inside() {
  local proxies
  mapfile -t proxies < <(env | grep -iE '^(https?|no)_proxy=')
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
    "NODE_EXTRA_CA_CERTS=$authorities" "${proxies[@]}" "$@"
}

# logged NAME COMMAND...: writes the command's output to a file, and shows it if the command fails.
logged() {
  local log=$packages/$1.log
  shift
  "$@" >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    fail "$*"
  }
}

# wait_for SECONDS COMMAND...: repeats the command until it succeeds. Fails after SECONDS.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

# free_ports COUNT: prints COUNT free ports.
free_ports() {
  PYTHONPATH=tests/support /usr/bin/python3 -B - "$1" <<'PYTHON'
import sys
from free_port import free_port
print(*(free_port() for _ in range(int(sys.argv[1]))))
PYTHON
}

# decision HTTP-ADDRESS PHONE: prints the decision of the example rule for text messages (one a
# minute).
decision() {
  curl -fsS "http://$1/v1/check" -d \
    "{\"domain\":\"shop\",\"attributes\":{\"endpoint\":\"/login/code\",\"phone\":\"$2\"}}" |
    jq -r .decision
}

# expect WHAT EXPECTED FOUND: fails unless the two values are equal.
expect() {
  [[ $2 == "$3" ]] || fail "$1: expected $2, found $3"
  echo "ok: $1: $3"
}

# find_programs: sets $bin to the folder of sluiced and sluice.
find_programs() {
  local built
  for built in build/package build/release; do
    bin=$PWD/$built/bin
    [[ -x $bin/sluiced && -x $bin/sluice ]] && return
  done
  fail "first build sluiced and sluice: cmake --preset package && cmake --build --preset package"
}
