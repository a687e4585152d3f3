#!/usr/bin/env bash
# The checks that need no build: format, shell scripts, locks, layers, sizes. Names what is wrong and
# where.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

echo "lint: clang-format"
find src tests -name '*.h' -print0 -o -name '*.cc' -print0 |
  xargs -0 clang-format --dry-run -Werror

echo "lint: shellcheck"
find . \( -name build -o -name .git -o -name node_modules \) -prune -o \
  -type f \( -name '*.sh' -o -path ./.ci/run \) -print0 |
  xargs -0 shellcheck

# What each mutex guards is written at the data, and Clang checks it. Code that the build generates is
# generated here, too: the API's classes, and the version.
echo "lint: locks"
if grep -rnE 'std::(recursive_|shared_)?mutex' src | grep -vE '^src/base/(mutex\.h|log\.cc):'; then
  echo "lint: use Mutex of base/mutex.h, which is annotated" >&2
  exit 1
fi
generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
mapfile -t protos < <(find proto -name '*.proto')
protoc --proto_path=proto --cpp_out="$generated" --grpc_out="$generated" \
  --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" "${protos[@]}"
mkdir "$generated/app"
sed 's/@[A-Za-z_]*@/lint/' src/app/version.h.in >"$generated/app/version.h"
flags=(-std=c++20 -Wthread-safety -Werror=thread-safety -Isrc -isystem "$generated"
  -DFMT_SHARED -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -DSLUICE_VERSION='"lint"')
# What most files include is read once.
grep -rhoE '#include <([a-z_]+|fmt/format.h)>' src | sort | uniq -c |
  awk '$1 > 3 { print $2, $3 }' >"$generated/common.h"
clang++ "${flags[@]}" -x c++-header "$generated/common.h" -o "$generated/common.pch"
find src -name '*.cc' -print0 |
  xargs -0 -n 8 -P 2 clang++ "${flags[@]}" -fsyntax-only -include-pch "$generated/common.pch"

echo "lint: layers"
/usr/bin/python3 tests/layers/check_layers.py src

echo "lint: code statistics"
/usr/bin/python3 scripts/code_stats.py

echo "lint: documents"
/usr/bin/python3 tests/docs/check_docs.py .
