#!/usr/bin/env bash
# Makes the archives from which the clients are installed, and prints their paths.
#   clients/package.sh [python|node|go|java|cpp ...]    without an argument: all languages
# The archives are written to build/clients/archives.
# Needs protoc, and the tools of the language. MAVEN_ARGS: arguments for mvn, such as -o.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(realpath ..)
out=$root/build/clients/archives
version=$("$root/scripts/version.py")
mkdir -p "$out"
(($#)) || set -- python node go java cpp

package_python() {
  /usr/bin/python3 -m pip -q wheel --no-index --no-build-isolation --no-deps -w "$out" ./python >&2
  echo "$out/sluice_client-$version-py3-none-any.whl"
}

package_node() {
  npm pack --silent --pack-destination "$out" ./node >&2
  echo "$out/sluice-client-$version.tgz"
}

package_go() {
  (cd go && go generate .) >&2
  archive go
}

package_java() {
  local sources=java/src/main/java plugin
  plugin=$(command -v grpc_java_plugin || command -v protoc-gen-grpc-java)
  protoc --proto_path="$root/proto" --java_out="$sources" --grpc-java_out="$sources" \
    --plugin=protoc-gen-grpc-java="$plugin" sluice/v1/rate_limiter.proto
  # The older servlet API, javax, differs only in its name.
  mkdir -p $sources/sluice/servlet/javax
  sed 's/jakarta/javax/g' $sources/sluice/servlet/jakarta/LimitFilter.java \
    >$sources/sluice/servlet/javax/LimitFilter.java
  # shellcheck disable=SC2086 # several arguments
  mvn -B -q ${MAVEN_ARGS:-} -f java package -Dmaven.test.skip >&2
  cp "java/target/sluice-client-$version.jar" "$out"
  echo "$out/sluice-client-$version.jar"
}

package_cpp() {
  archive cpp ../proto/sluice/v1/rate_limiter.proto
}

# archive LANGUAGE [FILE]: packs FILE, the generated code, and the language's files that git tracks
# or would add
archive() {
  local name=sluice-client-$1
  {
    git ls-files --cached --others --exclude-standard "$1"
    git ls-files --others --ignored --exclude-standard "$1"
    printf '%s\n' "${@:2}"
  } | tar -czP --exclude go.sum --transform "s,^$1,$name,;s,^\.\.,$name," -T - -f "$out/$name-$version.tar.gz"
  echo "$out/$name-$version.tar.gz"
}

for language in "$@"; do
  "package_$language"
done
