#!/usr/bin/env bash
# Makes the archives of the clients in clients/. Then installs each client, runs its example against real
# servers, and follows its README in a new project. Installs the packages that a client needs. If one
# cannot be installed, the script reports that and skips the client's language.
#   scripts/test_clients.sh [cpp|python|java|go|node ...]    without an argument: all
#   scripts/test_clients.sh prepare                          installs the packages only
# With node, tests the gateway of docker/llm as well. For the full tests, set STREAMS=1000 (streams of the
# gateway) and STARTS=100 (how often the first check after a start is tested).
# Tests three languages at a time, since their tests mostly wait. Shows a language's output when its tests end.
# Uses the sluiced and sluice of build/release, and builds them if they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,10s/^# //p' scripts/test_clients.sh
    exit
    ;;
esac
only_prepare=
[[ ${1-} != prepare ]] || { only_prepare=yes && shift; }
for language in "$@"; do
  [[ $language =~ ^(cpp|python|java|go|node)$ ]] || { sed -n '2,11s/^# //p' scripts/test_clients.sh >&2; exit 2; }
done
(($#)) || set -- java cpp python node go

declare -A packages=(
  # clients/testing/run.py also needs these
  [python]="redis-server python3-grpcio python3-protobuf protobuf-compiler openssl python3-pip python3-venv
    python3-setuptools python3-wheel python3-starlette python3-fastapi python3-uvicorn python3-flask"
  [cpp]="g++ cmake ninja-build libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler-grpc"
  [java]="openjdk-17-jdk-headless maven libmaven-compiler-plugin-java libmaven-resources-plugin-java
    libmaven-jar-plugin-java libmaven-install-plugin-java libsurefire-java libexec-maven-plugin-java
    libgrpc-java protobuf-compiler-grpc-java-plugin libnetty-java libguava-java libprotobuf-java
    libperfmark-java libgoogle-gson-java libanimal-sniffer-java libgoogle-common-protos-java
    liberror-prone-java libspring-aop-java libspring-context-java libspring-web-servlet-java
    libservlet-api-java libjakarta-servlet-api-java libjetty9-java libtomcat10-java libtomcat10-embed-java
    libnetty-tcnative-java libnetty-tcnative-jni"
  [go]="golang-go golang-google-grpc-dev golang-github-golang-protobuf-1-5-dev protoc-gen-go
    protoc-gen-go-grpc"
  [node]=""
)
command -v npm >/dev/null || packages[node]="nodejs npm"

# The Java example needs these.
jars=(grpc-{api,context,core,netty,protobuf,protobuf-lite,stub} guava protobuf gson perfmark-api
  netty-{buffer,codec,codec-http,codec-http2,codec-socks,common,handler,handler-proxy,resolver,transport}
  netty-transport-native-unix-common spring3-{aop,core,beans,context,expression,web,web.servlet}
  aopalliance commons-logging servlet-api jakarta-servlet-api tomcat10-embed-core
  tomcat10-annotations-api jetty9-{server,servlet,http,io,util,security})

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

# Installs exactly the packages of package-lock.json. If they are installed, needs no network.
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

# follow LANGUAGE ARCHIVE...: follows the language's README in a new project
follow() {
  local readme=clients/$1/README.md
  shift
  /usr/bin/python3 clients/testing/readme.py build/release/bin "$readme" "$@"
}

test_client() {
  local tests=(/usr/bin/python3 clients/testing/run.py build/release/bin) path modules out classes pom
  case $1 in
    cpp)
      path=$(clients/package.sh cpp)
      out=$PWD/build/clients/cpp
      mkdir -p "$out"
      rm -rf "$out/sluice-client-cpp"
      tar -xf "$path" -C "$out"
      command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache
      export CMAKE_GENERATOR=Ninja CXXFLAGS="-O1 -Wall -Wextra -Wpedantic -Werror"
      cmake -S "$out/sluice-client-cpp" -B "$out/client" -DSLUICE_CLIENT_TEST=ON
      cmake --build "$out/client"
      "$out/client/client_test"
      cmake --install "$out/client" --prefix "$out/prefix"
      cmake -S "$out/sluice-client-cpp/example" -B "$out/example" -DCMAKE_PREFIX_PATH="$out/prefix" \
        -DPROTOS="$PWD/proto"
      cmake --build "$out/example"
      PAY_COMMANDS="pay pay_async" "${tests[@]}" "$out/example/shop"
      # Entries of the compiler's cache must not depend on the new project's folder.
      CCACHE_BASEDIR=${TMPDIR:-/tmp} CCACHE_NOHASHDIR=1 follow cpp "$path"
      ;;
    python)
      path=$(clients/package.sh python)
      /usr/bin/python3 -m pip -q install --no-index --no-deps --upgrade --target build/clients/python "$path"
      PYTHONPATH=$PWD/build/clients/python /usr/bin/python3 clients/python/test/client_test.py
      PYTHONPATH=$PWD/build/clients/python PAY_COMMANDS="pay pay_async pay_block" RESERVE_COMMANDS="reserve reserve_async" \
        "${tests[@]}" /usr/bin/python3 clients/python/example.py
      # Debian's packages are used instead of the package index.
      PATH=/usr/bin:/bin PYTHONPATH=/usr/lib/python3/dist-packages PIP_NO_INDEX=1 follow python "$path"
      ;;
    java)
      out=$PWD/build/clients/java
      # Instead of Maven's repository, uses a folder of links to Debian's. New artifacts are
      # installed into this folder.
      rm -rf "$out" && mkdir -p "$out/classes"
      cp -rs /usr/share/maven-repo "$out/repository"
      export LC_ALL=POSIX
      path=$(MAVEN_ARGS="-o -Dmaven.repo.local=$out/repository" clients/package.sh java)
      protoc --proto_path=proto --java_out="$out" --grpc-java_out="$out" \
        --plugin=protoc-gen-grpc-java="$(command -v grpc_java_plugin || command -v protoc-gen-grpc-java)" \
        grpc/health/v1/health.proto
      classes=$out/classes:$path:$(printf '/usr/share/java/%s.jar:' "${jars[@]}")
      find "$out/grpc" -name '*.java' -print0 |
        xargs -0 javac --release 8 -encoding UTF-8 -proc:none -nowarn -d "$out/classes" -cp "$classes"
      javac -encoding UTF-8 -proc:none -parameters -d "$out/classes" -cp "$classes" clients/java/{example,test}/*.java
      java -XX:TieredStopAtLevel=1 -cp "$classes" ClientTest
      PAY_COMMANDS="pay spring async" RESERVE_COMMANDS="reserve reserve_async" \
        "${tests[@]}" java -XX:TieredStopAtLevel=1 -cp "$classes" Example
      # For TLS, gRPC needs the OpenSSL library of Debian's netty, under the name that netty
      # expects.
      mkdir "$out/.mvn" "$out/native"
      cp "/usr/lib/$(uname -m)-linux-gnu/jni/libnetty-tcnative.so" "$out/native/libnetty_tcnative.so"
      for pom in "$out"/repository/io/grpc/grpc-netty/*/*.pom; do
        sed --follow-symlinks "s,<dependencies>,&<dependency><groupId>io.netty</groupId>\
          <artifactId>netty-tcnative</artifactId><version>debian</version></dependency>," "$pom" >"$out/pom"
        mv "$out/pom" "$pom"
      done
      printf '%s\n' -o "-Dmaven.repo.local=$out/repository" >"$out/.mvn/maven.config"
      MAVEN_OPTS=-Djava.library.path=$out/native follow java "$path" "$out/.mvn"
      ;;
    go)
      path=$(clients/package.sh go)
      out=$PWD/build/clients/go
      clients/testing/go_proxy.py "$out/proxy"
      # Debian's libraries are used instead of the module proxy.
      export GOPROXY=file://$out/proxy GONOSUMDB='*' GOSUMDB=off GOFLAGS='-mod=mod -modcacherw' GOTOOLCHAIN=local \
        GOMODCACHE=$out/modules GOCACHE=$out/cache
      rm -rf "$out/sluice-client-go" "$out/modules"
      tar -xf "$path" -C "$out"
      (cd "$out/sluice-client-go" && go vet ./... && go test . && go build -o "$out/example" ./example)
      "${tests[@]}" "$out/example"
      follow go "$path"
      ;;
    node)
      path=$(clients/package.sh node)
      modules=build/clients/node/node_modules
      rm -rf "$modules/sluice-client" && mkdir "$modules/sluice-client"
      tar -xf "$path" -C "$modules/sluice-client" --strip-components 1
      cp clients/node/example.js clients/node/test/client_test.js build/clients/node
      "$modules/.bin/tsc" --noEmit --allowJs --checkJs --skipLibCheck --target es2022 \
        --module node16 --types node --typeRoots "$modules/@types" build/clients/node/example.js
      node --test build/clients/node/client_test.js
      "${tests[@]}" node build/clients/node/example.js
      mkdir -p build/clients/node/llm
      cp docker/llm/*.js build/clients/node/llm
      /usr/bin/python3 clients/testing/gateway.py build/release/bin build/clients/node/llm
      npm_config_prefer_offline=true npm_config_audit=false npm_config_fund=false follow node "$path"
      ;;
  esac
}

if [[ $only_prepare ]]; then
  for language in "$@"; do prepare "$language"; done
  exit
fi

if [[ ! -x build/release/bin/sluiced || ! -x build/release/bin/sluice ]]; then
  scripts/setup.sh build
  cmake --preset release
  cmake --build --preset release --target sluiced sluice
fi

if ! prepare python; then
  echo "clients: not tested: the packages of the tests cannot be installed (no network?)"
  exit 0
fi
set -m # each language has its own process group, so that the trap can end it
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
    ((${#language_of[@]} < 3)) || finish_one
    start_one "$language"
  else
    echo "clients: $language is not tested: its packages cannot be installed (no network?)"
    skipped+=("$language")
  fi
done
while ((${#language_of[@]})); do finish_one; done

join() { (($#)) && printf -v joined ', %s' "$@" && echo "${joined:2}" || echo none; }
printf '\nclients: passed: %s; failed: %s; left out: %s; %d s in all\n' \
  "$(join "${passed[@]}")" "$(join "${failed[@]}")" "$(join "${skipped[@]}")" "$SECONDS"
((${#failed[@]} == 0))
