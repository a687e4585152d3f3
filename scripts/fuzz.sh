#!/usr/bin/env bash
# Fuzzes the parsers of untrusted input with clang's libFuzzer, AddressSanitizer and UBSan.
#   scripts/fuzz.sh [TARGET|all [SECONDS]]    fuzzes each target for SECONDS (default 600)
# Each .cc file in tests/fuzz/ is a target, except replay.cc. Fuzzing starts from the inputs in
# tests/fuzz/corpus/ and writes new inputs to build/fuzz/found. An input that makes a target fail is
# written there as crash-*: add the input to the corpus together with the fix.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,6s/^# //p' scripts/fuzz.sh
    exit
    ;;
esac
wanted=${1:-all}
seconds=${2:-600}

scripts/setup.sh
cmake --preset fuzz
targets=()
for source in tests/fuzz/*.cc; do
  name=$(basename "$source" .cc)
  [[ $name == replay ]] && continue
  [[ $wanted == all || $wanted == "$name" ]] && targets+=("$name")
done
if ((${#targets[@]} == 0)); then
  echo "fuzz: no target \"$wanted\" in tests/fuzz" >&2
  exit 2
fi
cmake --build --preset fuzz --target "${targets[@]/#/fuzz_}"
for name in "${targets[@]}"; do
  found=build/fuzz/found/$name
  mkdir -p "$found"
  echo "fuzz: $name for $seconds s"
  build/fuzz/fuzz/"fuzz_$name" -max_total_time="$seconds" -artifact_prefix="$found/" \
    -print_final_stats=1 -verbosity=0 -max_len=65536 "$found" "tests/fuzz/corpus/$name"
done
