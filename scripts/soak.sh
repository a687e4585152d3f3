#!/usr/bin/env bash
# Runs a soak test: the same servers run for the whole time, callers use gRPC, and every 5 seconds there
# is a fault. Prints a table (see docs/outages.md). Fails if a promise is broken or a server's memory grows.
#   scripts/soak.sh [SECONDS [OPTION...]]    600 seconds by default, in which over 1,000,000 checks
#                                            are made; options: see tests/chaos/run.py
# With AddressSanitizer, which finds leaks itself:
#   scripts/soak.sh 600 --build build/asan-ubsan --redis-timeout 25 --growth 64
# Builds build/release, unless --build names another build. Servers and Redis log to build/soak.log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,8s/^# //p' scripts/soak.sh
    exit
    ;;
esac
seconds=${1:-600}
shift || true
[[ $seconds =~ ^[0-9]+$ ]] || { sed -n '2,9s/^# //p' scripts/soak.sh >&2; exit 2; }
log=build/soak.log

if [[ " $* " != *" --build"* ]]; then
  scripts/setup.sh
  cmake --preset release
  cmake --build --preset release --target sluiced sluice sluice_test_chosen_names \
    sluice_test_shifted_clock
fi

# AddressSanitizer keeps freed memory for a while, which counts as growth. This limits that memory.
export ASAN_OPTIONS=quarantine_size_mb=8

echo "soak: $seconds s; progress: $log"
mkdir -p build
tests/chaos/run.py --soak "$seconds" --rate 4000 "$@" 2>"$log"
