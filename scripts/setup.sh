#!/usr/bin/env bash
# Installs the packages to build, run and test Sluice on Debian 12. If all are installed, does
# nothing, and needs neither root nor a network.
#   scripts/setup.sh [build|--valkey]
# build: only the packages to build and run. --valkey: also Valkey from Debian's backports, which are
# added to apt's sources. If Valkey is installed, the store's tests run on it as well as on Redis.
set -euo pipefail

build_packages=(
  # build: compiler and build system
  g++ cmake ninja-build ccache pkg-config git python3
  # API: gRPC, protobuf and their code generators
  libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
  # store: Redis' wire protocol, sockets and timers, TLS and SHA-256
  libhiredis-dev libboost-dev libssl-dev
  # rules and settings: YAML, regular expressions, flags
  libyaml-dev libre2-dev libcli11-dev
  # memory: an allocator that is fast when a thread frees memory of another thread; a hash function
  libmimalloc-dev libxxhash-dev
  # HTTP/2, JSON, compressed messages
  libnghttp2-dev nlohmann-json3-dev zlib1g-dev
  # replay of logs: JSON lines
  libsimdjson-dev
  # the page of `sluice console`: charts, embedded at build time
  libjs-chart.js
  # observability: logs and metrics (prometheus-cpp-dev brings civetweb, curl and zlib)
  libspdlog-dev libfmt-dev prometheus-cpp-dev
)
test_packages=(
  # tests: GoogleTest, a real Redis (started and ended by the tests), clients in Python
  libgtest-dev libgmock-dev redis-server redis-tools
  python3-grpcio python3-protobuf python3-yaml python3-jsonschema python3-cryptography curl jq
  # tests: promtool checks metrics and alerts, Prometheus scrapes and raises an alert
  prometheus
  # tests: a client in Go (its libraries are Debian packages, too), certificates for TLS
  golang-go golang-google-grpc-dev golang-github-golang-protobuf-1-5-dev
  protoc-gen-go protoc-gen-go-grpc openssl
  # tests: proxies that ask Sluice
  nginx-light caddy haproxy
  # tests: a browser for the page of `sluice console`
  chromium
  # performance: h2load, a second load generator
  nghttp2-client
  # checks: sanitizers, format, static analysis, shell
  clang clang-format clang-tidy libclang-rt-14-dev shellcheck
)

case "${1:-}" in
  "") packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  build) packages=("${build_packages[@]}") ;;
  --valkey) packages=("${build_packages[@]}" "${test_packages[@]}" valkey-server) ;;
  -h | --help)
    sed -n '2,6s/^# //p' "$0"
    exit
    ;;
  *)
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; install the equivalents of these packages: ${packages[*]}" >&2
  exit 1
fi

backports=/etc/apt/sources.list.d/sluice-backports.list
# tests: a client in Node. Node and npm from other sources are accepted.
if [[ ${1:-} != build ]] && ! { command -v node && command -v npm; } >/dev/null; then
  packages+=(nodejs npm)
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: not root and no sudo; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@"
}

# Uses this machine's Debian mirror for the backports. apt does not upgrade packages of
# Debian 12 to versions from the backports.
add_backports() {
  local uri
  # shellcheck disable=SC2016 # apt's own variable
  uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Release: bookworm' \
    'Component: main' | head -n 1)
  "${as_root[@]}" tee "$backports" >/dev/null \
    <<<"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri bookworm-backports main"
  apt update
}

echo "setup: installing ${#missing[@]} packages: ${missing[*]}"
apt update
if [[ " ${missing[*]} " == *" valkey-server "* ]] && [[ -z $(apt-cache search -n '^valkey-server$') ]]; then
  add_backports
fi
apt install -y --no-install-recommends "${missing[@]}"
echo "setup: done"
