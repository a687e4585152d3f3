#!/usr/bin/env bash
# Builds the client, installs it into a folder, and builds the example with the installed package.
# Prints the example's path.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
out=$(realpath -m ../../build/clients/cpp)
prefix=$out/prefix
options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Werror")
command -v ccache >/dev/null && options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
{
  cmake -S . -B "$out/client" "${options[@]}"
  cmake --build "$out/client" --parallel 2
  cmake --install "$out/client" --prefix "$prefix"
  cmake -S example -B "$out/example" "${options[@]}" -DCMAKE_PREFIX_PATH="$prefix"
  cmake --build "$out/example" --parallel 2
} >&2
echo "$out/example/shop"
