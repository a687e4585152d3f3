#!/usr/bin/env bash
# Lints what needs no build: format, shell scripts, locks, layers, sizes, documents. Prints each
# problem and its place.
#   scripts/lint.sh                lints all of these, which takes seconds
#   scripts/lint.sh --tidy [BASE]  runs clang-tidy (.clang-tidy) on all of src, or on the files of
#                                  src that differ from the commit BASE; takes about ten seconds a
#                                  file
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# clang-tidy needs generated headers, so this builds the targets in build/dev that generate them.
tidy() {
  cmake --preset dev >/dev/null
  cmake --build --preset dev --target sluice_messages sluice_store_redis >/dev/null
  local -a files
  if (($# > 0)); then
    mapfile -t files < <(git diff --name-only --diff-filter=d "$1" -- 'src/*.cc')
  else
    mapfile -t files < <(git ls-files 'src/*.cc')
  fi
  echo "lint: clang-tidy on ${#files[@]} files"
  ((${#files[@]} == 0)) ||
    printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/dev --quiet \
        --extra-arg=-Wno-unknown-warning-option
}

case ${1-} in
  --tidy)
    tidy "${@:2}"
    exit
    ;;
  --help | -h)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    exit
    ;;
esac

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
/usr/bin/python3 scripts/code_stats.py --self-test

echo "lint: version"
scripts/version.py >/dev/null

echo "lint: documents"
/usr/bin/python3 tests/docs/check_docs.py .
