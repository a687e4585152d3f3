#!/usr/bin/env bash
# The checks that need no build: format, shell scripts, locks, layers, sizes, documents. Prints each
# problem and its place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

echo "lint: clang-format"
find src tests clients -name '*.h' -print0 -o -name '*.cc' -print0 |
  xargs -0 clang-format --dry-run -Werror

echo "lint: shellcheck"
find . \( -name build -o -name .git -o -name node_modules \) -prune -o \
  -type f \( -name '*.sh' -o -path ./.ci/run \) -print0 |
  xargs -0 shellcheck

# Clang checks that annotated data is accessed only with its mutex held (-Wthread-safety in the builds
# with sanitizers).
echo "lint: locks"
if grep -rnE 'std::(recursive_|shared_)?mutex' src | grep -vE '^src/base/(mutex\.h|log\.cc):'; then
  echo "lint: use Mutex of base/mutex.h, which is annotated" >&2
  exit 1
fi

echo "lint: layers"
/usr/bin/python3 tests/layers/check_layers.py src

echo "lint: code statistics"
/usr/bin/python3 scripts/code_stats.py

echo "lint: version"
scripts/version.py >/dev/null

echo "lint: documents"
/usr/bin/python3 tests/docs/check_docs.py .
