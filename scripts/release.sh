#!/usr/bin/env bash
# Builds the files of a release page from the last commit: the source archive, the Debian package, the image
# as an archive for `docker load`, the archives of the clients, and their SHA-256 sums. Needs root
# and Debian's packages.
#   scripts/release.sh [DIRECTORY]    default: build/release-files
# The version is the one in CMakeLists.txt; `scripts/version.py set VERSION` changes it everywhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,6s/^# //p' scripts/release.sh
    exit
    ;;
esac
mkdir -p "${1:-build/release-files}"
out=$(cd "${1:-build/release-files}" && pwd)
version=$(scripts/version.py)
name=sluice-$version
images=$PWD/build/packages
if [[ -n $(git status --porcelain) ]]; then
  echo "release: commit these changes first, because only committed files are released:" >&2
  git status --short >&2
  exit 1
fi
if ((EUID != 0)); then
  echo "release: run as root, because buildah needs root" >&2
  exit 1
fi

scripts/setup.sh build
packages=(buildah dpkg-dev file)
if ! dpkg-query -W "${packages[@]}" >/dev/null 2>&1; then
  apt-get -q update
  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${packages[@]}"
fi

echo "release: $name.tar.gz"
rm -f "$out"/sluice[-_]* "$out/SHA256SUMS"
git archive --format=tar.gz --prefix="$name/" --output="$out/$name.tar.gz" HEAD

# Builds from the archive, to check that the archive is complete.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --extract --file="$out/$name.tar.gz" --directory="$work"
source=$work/$name

echo "release: the Debian package"
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
(cd "$source" && cmake --preset package >/dev/null && cmake --build --preset package)
mv "$source"/build/package/sluice_*.deb "$out"
rm -rf "$source/build"

echo "release: the image"
cache=$(ccache --get-config cache_dir)
mkdir -p "$cache" "$images"
buildah=(buildah --storage-driver vfs --root "$images/images" --runroot "$images/run")
"${buildah[@]}" build --isolation chroot --network host --pull=missing --format docker --layers=false \
  --volume "$cache:/root/.cache/ccache" --build-arg "VERSION=$version" \
  --file "$source/docker/Dockerfile" --tag "sluice:$version" "$source"
"${buildah[@]}" push --quiet "sluice:$version" \
  "docker-archive:$work/image.tar:sluice:$version" >/dev/null
gzip --no-name --stdout "$work/image.tar" >"$out/$name-image-amd64.tar.gz"

echo "release: the clients"
scripts/test_clients.sh prepare
# Maven works offline, in a folder of links to Debian's artifacts.
cp -rs /usr/share/maven-repo "$work/maven"
MAVEN_ARGS="-o -Dmaven.repo.local=$work/maven" clients/package.sh | xargs cp -t "$out"

(cd "$out" && sha256sum sluice[-_]* >SHA256SUMS)
printf '\nrelease: %s has\n' "$out"
cat "$out/SHA256SUMS"
