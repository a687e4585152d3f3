#!/usr/bin/env bash
# Builds everything with warnings as errors and runs the tests.
#   scripts/test.sh [PRESET [CTEST-ARGUMENT...]]
# PRESET: release (default), dev, asan-ubsan or tsan. `scripts/test.sh dev -R check` runs some.
# SLUICE_TEST_TARGETS, separated by spaces, says what to build if it is not everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
shift || true

scripts/setup.sh
cmake --preset "$preset" -DSLUICE_WERROR=ON
read -ra targets <<<"${SLUICE_TEST_TARGETS:-all}"
cmake --build --preset "$preset" --target "${targets[@]}"

export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp ignore_noninstrumented_modules=1"
# Two at a time; tests that measure time or load the machine are marked RUN_SERIAL.
ctest --preset "$preset" --parallel 2 "$@"
