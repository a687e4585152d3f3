#!/usr/bin/env bash
# Installs what it takes to build, run and test Sluice on Debian 12. When all of it is there, it
# does nothing and needs neither root nor a network.
set -euo pipefail

packages=(
  # build: compiler and build system
  g++ cmake ninja-build ccache pkg-config git
  # API: gRPC, protobuf and their code generators
  libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
  # store: Redis' wire protocol, sockets and timers, TLS and SHA-256
  libhiredis-dev libboost-dev libssl-dev
  # rules and settings: YAML, regular expressions, flags
  libyaml-cpp-dev libre2-dev libcli11-dev
  # memory: an allocator for threads that free what others have allocated
  libmimalloc-dev
  # gRPC server and load generator: HTTP/2, compressed messages
  libnghttp2-dev nlohmann-json3-dev zlib1g-dev
  # seeing: logs and metrics (brings civetweb, curl and zlib)
  libspdlog-dev libfmt-dev prometheus-cpp-dev
  # tests: GoogleTest, a real Redis (started and ended by the tests), clients in Python
  libgtest-dev libgmock-dev redis-server redis-tools
  python3 python3-grpcio python3-protobuf python3-yaml curl jq
  # tests: promtool checks metrics and alerts, Prometheus itself scrapes and raises one
  prometheus
  # tests: a client in Go (its libraries are packages, too), certificates for TLS
  golang-go golang-google-grpc-dev golang-github-golang-protobuf-1-5-dev
  protoc-gen-go protoc-gen-go-grpc openssl
  # tests: proxies that ask Sluice
  nginx-light caddy
  # performance: h2load, a second generator
  nghttp2-client
  # checks: format, static analysis, shell
  clang clang-format clang-tidy libclang-rt-14-dev shellcheck
)

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian; install these packages' equivalents: ${packages[*]}" >&2
  exit 1
fi

# tests: a client in Node. A Node and npm from elsewhere are good enough.
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
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
echo "setup: installing ${#missing[@]} packages: ${missing[*]}"
apt update
apt install -y --no-install-recommends "${missing[@]}"
echo "setup: done"
