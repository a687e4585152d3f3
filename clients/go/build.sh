#!/usr/bin/env bash
# Builds the example in GOPATH mode, with Debian's packages alone: no network is needed.
#   clients/go/build.sh PROGRAM
set -euo pipefail
program=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
generated=$PWD/../../build/clients/go
mkdir -p "$generated/src"
protoc --proto_path=../../proto --go_out="$generated/src" --go-grpc_out="$generated/src" \
  sluice/v1/rate_limiter.proto
env GO111MODULE=off GOFLAGS='' GOPATH="$PWD:$generated:/usr/share/gocode" \
  GOCACHE="$generated/cache" go build -p 2 -o "$program" sluice/example
