#!/usr/bin/env bash
# Builds everything with warnings as errors and runs the tests.
#   scripts/test.sh [PRESET [CTEST-ARGUMENT...]]
# PRESET: release (default), dev, asan-ubsan or tsan. CTest arguments can select tests:
# `scripts/test.sh dev -R check`. The variable SLUICE_TEST_TARGETS has the targets to build,
# separated by spaces; default: all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,6s/^# //p' scripts/test.sh
    exit
    ;;
esac
preset=${1:-release}
shift || true

scripts/setup.sh
cmake --preset "$preset" -DSLUICE_WERROR=ON
read -ra targets <<<"${SLUICE_TEST_TARGETS:-all}"
cmake --build --preset "$preset" --target "${targets[@]}"
export -n SLUICE_TEST_TARGETS # sluiced would read it as a setting

export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp ignore_noninstrumented_modules=1"
# Runs six tests at a time, since most tests mostly wait. Tests that measure time
# or load the machine are marked RUN_SERIAL.
ctest --preset "$preset" --parallel 6 "$@"
