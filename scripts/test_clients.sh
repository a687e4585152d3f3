#!/usr/bin/env bash
# Builds the clients in clients/ and runs each one's example against real servers. Installs the packages
# they need. If one cannot be installed, it says so, and skips the language.
#   scripts/test_clients.sh [cpp|python|java|go|node ...]    all without an argument
# Tests two languages at a time, since their tests wait most of the time. Shows the output of each when it
# has ended. Uses the sluiced and sluice of build/release, and builds them if they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for language in "$@"; do
  [[ $language =~ ^(cpp|python|java|go|node)$ ]] || { sed -n '2,6s/^# //p' scripts/test_clients.sh >&2; exit 2; }
done
(($#)) || set -- cpp python java go node

declare -A packages=(
  [python]="python3-grpcio python3-protobuf protobuf-compiler" # run.py needs them, too
  [cpp]="g++ cmake ninja-build libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler-grpc"
  [java]="openjdk-17-jdk-headless libgrpc-java protobuf-compiler-grpc-java-plugin libnetty-java
    libguava-java libprotobuf-java libperfmark-java libspring-aop-java"
  [go]="golang-go golang-google-grpc-dev golang-github-golang-protobuf-1-5-dev protoc-gen-go
    protoc-gen-go-grpc"
  [node]=""
)
command -v npm >/dev/null || packages[node]="nodejs npm"

install_packages() {
  local package as_root=() missing=()
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || as_root=(sudo)
  "${as_root[@]}" apt-get -q update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -q -o Dpkg::Use-Pty=0 install -y --no-install-recommends "${missing[@]}"
}

# Exactly the packages of package-lock.json; needs no network if they are installed.
install_npm_packages() {
  local source=clients/node/package-lock.json folder=build/clients/node
  cmp -s "$source" "$folder/installed.json" && return
  mkdir -p "$folder"
  cp clients/node/package.json "$source" "$folder"
  npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --no-update-notifier &&
    cp "$source" "$folder/installed.json"
}

# Installs the packages of the language. Fails if one cannot be installed.
prepare() {
  # shellcheck disable=SC2086 # a list
  install_packages ${packages[$1]} || return
  [[ $1 != node ]] || install_npm_packages
}

test_client() {
  local tests=(/usr/bin/python3 clients/testing/run.py build/release/bin) generated path
  case $1 in
    cpp)
      path=$(clients/cpp/build.sh)
      PAY_COMMANDS="pay pay_async" "${tests[@]}" "$path"
      ;;
    python)
      generated=build/clients/python
      mkdir -p "$generated"
      protoc --proto_path=proto --python_out="$generated" sluice/v1/rate_limiter.proto
      PYTHONPATH=$generated:clients/python PAY_COMMANDS="pay pay_async" \
        "${tests[@]}" /usr/bin/python3 clients/python/example.py
      ;;
    java)
      path=$(clients/java/build.sh)
      PAY_COMMANDS="pay spring" "${tests[@]}" java -XX:TieredStopAtLevel=1 -cp "$path" sluice.example.Example
      ;;
    go)
      clients/go/build.sh build/clients/go/example
      "${tests[@]}" build/clients/go/example
      ;;
    node) NODE_PATH=$PWD/build/clients/node/node_modules "${tests[@]}" node clients/node/example.js ;;
  esac
}

if [[ ! -x build/release/bin/sluiced || ! -x build/release/bin/sluice ]]; then
  scripts/setup.sh build
  cmake --preset release
  cmake --build --preset release --target sluiced sluice
fi

if ! prepare python; then
  echo "clients: not tested: the packages of the tests cannot be installed: is there a network?"
  exit 0
fi
set -m # each language is a process group, which ends when this script is interrupted
declare -A language_of=() started=()
trap 'for pid in "${!language_of[@]}"; do kill -- "-$pid"; done' EXIT
passed=() failed=() skipped=()

logs=build/clients/logs
mkdir -p "$logs"
start_one() {
  started[$1]=$SECONDS
  (test_client "$1") </dev/null >"$logs/$1" 2>&1 &
  language_of[$!]=$1
}

finish_one() {
  local pid status=0 language seconds
  wait -n -p pid || status=$?
  language=${language_of[$pid]}
  unset "language_of[$pid]"
  seconds=$((SECONDS - started[$language]))
  printf '\n===== %s: exit status %d after %d s =====\n' "$language" "$status" "$seconds"
  cat "$logs/$language"
  if ((status == 0)); then passed+=("$language ($seconds s)"); else failed+=("$language"); fi
}

for language in "$@"; do
  if prepare "$language"; then
    ((${#language_of[@]} < 2)) || finish_one
    start_one "$language"
  else
    echo "clients: $language is not tested: its packages cannot be installed: is there a network?"
    skipped+=("$language")
  fi
done
while ((${#language_of[@]})); do finish_one; done

join() { (($#)) && printf -v joined ', %s' "$@" && echo "${joined:2}" || echo none; }
printf '\nclients: passed: %s; failed: %s; left out: %s; %d s in all\n' \
  "$(join "${passed[@]}")" "$(join "${failed[@]}")" "$(join "${skipped[@]}")" "$SECONDS"
((${#failed[@]} == 0))
