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

# Clang checks that annotated data is accessed only with its mutex held. It needs the code that the
# build generates: the API's classes and the version.
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
# The files of a folder are read as one, since headers take most of the time.
find src -name '*.cc' | LC_ALL=C sort | while read -r file; do
  folder=$(dirname "${file#src/}")
  echo "#include \"${file#src/}\"" >>"$generated/${folder//\//_}.cc"
done
find "$generated" -maxdepth 1 -name '*.cc' -print0 |
  xargs -0 -n 1 -P 2 clang++ "${flags[@]}" -fsyntax-only

echo "lint: layers"
/usr/bin/python3 tests/layers/check_layers.py src

echo "lint: code statistics"
/usr/bin/python3 scripts/code_stats.py

echo "lint: documents"
/usr/bin/python3 tests/docs/check_docs.py .
