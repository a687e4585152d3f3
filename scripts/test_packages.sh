#!/usr/bin/env bash
# Builds and tests what users install: packages, images, manifests. Needs root and the packages of Debian
# and npm, but no container engine. In build/packages, keeps intermediate results that are slow to make.
#   scripts/test_packages.sh [debian|install|image|compose|kubernetes|readme|release ...]    default: all
# install: cmake --install. readme: the README's two commands in a clean Debian. release: the files of
# scripts/release.sh, from the last commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,6s/^# //p' scripts/test_packages.sh
    exit
    ;;
esac
parts='debian install image compose kubernetes readme release'
for part in "$@"; do
  [[ " $parts " == *" $part "* ]] || { sed -n '2,6s/^# //p' scripts/test_packages.sh >&2; exit 2; }
done
# shellcheck disable=SC2086
(($#)) || set -- $parts
if ((EUID != 0)); then
  echo "packages: run as root, because namespaces and mounts need root" >&2
  exit 1
fi

missing=()
for package in buildah curl debootstrap dpkg-dev file git jq man-db nginx-light nodejs procps prometheus \
  python3-yaml redis-server systemd; do
  [[ $package == nodejs ]] && command -v npm >/dev/null && continue
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
    missing+=("$package")
done
if ((${#missing[@]})); then
  apt-get -q update
  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"
fi

for part in "$@"; do
  printf '\n===== %s =====\n' "$part"
  start=$SECONDS
  "tests/packages/$part.sh"
  printf '===== %s: passed in %d s =====\n' "$part" $((SECONDS - start))
done
printf '\npackages: %s passed\n' "$*"
