#!/usr/bin/env bash
# Builds client and example with Debian's packages alone; prints the class path to run it with.
#   java -cp "$(clients/java/build.sh)" sluice.example.Example
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
out=$(realpath -m ../../build/clients/java)
mkdir -p "$out/generated" "$out/classes"
libraries=(grpc-api grpc-context grpc-core grpc-netty grpc-protobuf grpc-protobuf-lite grpc-stub
  guava protobuf perfmark-api netty-buffer netty-codec netty-codec-http netty-codec-http2
  netty-codec-socks netty-common netty-handler netty-handler-proxy netty-resolver netty-transport
  netty-transport-native-unix-common spring3-aop spring3-core spring3-beans aopalliance
  commons-logging)
plugin=$(command -v grpc_java_plugin || command -v protoc-gen-grpc-java) || {
  echo "$0: found no grpc_java_plugin; scripts/test_clients.sh java installs what this needs" >&2
  exit 1
}
path=$out/classes
for library in "${libraries[@]}"; do
  path+=:/usr/share/java/$library.jar
done
{
  protoc --proto_path=../../proto --java_out="$out/generated" --grpc-java_out="$out/generated" \
    --plugin=protoc-gen-grpc-java="$plugin" \
    sluice/v1/rate_limiter.proto grpc/health/v1/health.proto
  find src "$out/generated" -name '*.java' -print0 |
    xargs -0 javac --release 8 -Xlint:all,-options,-try,-rawtypes,-processing,-cast,-path -nowarn \
      -d "$out/classes" -cp "$path"
} >&2
echo "$path"
