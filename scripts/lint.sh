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

# What each mutex guards is written at the data; Clang checks it. What needs generated code is left
# out: this check builds nothing.
echo "lint: locks"
flags=(-std=c++20 -fsyntax-only -Wthread-safety -Werror=thread-safety -Isrc -DFMT_SHARED
  -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL)
find src \( -path src/admin -o -path src/api -o -path src/app -o -path src/client -o \
  -path src/service -o -path src/tools \) -prune \
  -o -name '*.cc' -exec grep -LZ 'pb\.h>' {} + | xargs -0 -n 1 -P 2 clang++ "${flags[@]}"

echo "lint: layers"
/usr/bin/python3 tests/layers/check_layers.py src
