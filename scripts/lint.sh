#!/usr/bin/env bash
# The checks that need no build: C++ format, shell scripts, layers. Names what is wrong and where.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

echo "lint: clang-format"
find src tests -name '*.h' -print0 -o -name '*.cc' -print0 |
  xargs -0 clang-format --dry-run -Werror

echo "lint: shellcheck"
find . \( -name build -o -name .git -o -name node_modules \) -prune -o \
  -type f \( -name '*.sh' -o -path ./.ci/run \) -print0 |
  xargs -0 shellcheck

echo "lint: layers"
/usr/bin/python3 tests/layers/check_layers.py src
