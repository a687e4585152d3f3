#!/usr/bin/env bash
# Measures Sluice on this machine. Prints a table that compares it with bare gRPC and bare Redis.
# Takes about ten minutes. No other load should run at the same time.
#   scripts/bench.sh [--help] [OPTION...]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

wants_help() {
  local argument
  for argument; do
    [[ $argument == -h || $argument == --help ]] && return
  done
  return 1
}

if ! wants_help "$@"; then
  "$root/scripts/setup.sh" >&2
  (
    cd "$root"
    cmake --preset release
    cmake --build --preset release --target sluiced sluice noop_server noop_http2 \
      core_distance
  ) >&2
fi
exec /usr/bin/python3 "$root/tests/bench/report" "$@"
