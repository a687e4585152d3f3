#!/usr/bin/env bash
# Runs the README's two commands in a clean Debian: scripts/run.sh, then scripts/test.sh with a few
# tests. In between, runs scripts/run.sh again after cmake --preset release. The source is a
# checkout without its history. If SLUICE_TEST_TARGETS=all, runs all tests, as a new user does (an
# hour on a slow machine).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

make_root readme
mkdir "$root/src"
git ls-files -z | tar --create --null --files-from=- | tar --extract -C "$root/src"
# With the compiler cache, a second run of this test is quick. CCACHE_* (below) let it reuse what another
# checkout has compiled. Its keys contain LANG, so all commands run with the same LANG.
mkdir -p "$root/root/.cache/ccache" "${CCACHE_DIR:=$HOME/.cache/ccache}"
mount --bind "$CCACHE_DIR" "$root/root/.cache/ccache"
mounts+=("$root/root/.cache/ccache")

read -r grpc http <<<"$(free_ports 2)"
at_source() {
  inside LANG=C.UTF-8 CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1 bash -c "cd /src && $*"
}

runs() {
  local begin=$SECONDS
  echo "----- scripts/run.sh"
  at_source "SLUICE_GRPC=127.0.0.1:$grpc SLUICE_HTTP=127.0.0.1:$http scripts/run.sh --background" 2>&1 |
    tee "$packages/run.log"
  server=$(cat "$root/src/build/run/sluiced.pid")
  processes=("$server")
  grep -q 'ALLOWED  by pay-per-user (token_bucket 19 of 20 left)' "$packages/run.log" ||
    fail "run.sh shows no decision"
  echo "ok: run.sh shows a decision after $((SECONDS - begin)) s"
  expect "first" DECISION_ALLOWED "$(decision "127.0.0.1:$http" 1)"
  expect "second" DECISION_DENIED "$(decision "127.0.0.1:$http" 1)"
  kill -TERM "$server"
  wait_for 20 sh -c "! kill -0 $server" || fail "the server does not end"
  processes=()
}
runs

echo "----- cmake --preset release, without the packages for tests"
at_source "cmake --preset release" >"$packages/configure.log" 2>&1 ||
  { cat "$packages/configure.log" >&2; fail "cmake --preset release fails"; }
grep 'tests' "$packages/configure.log"
runs

echo "----- scripts/test.sh"
targets=${SLUICE_TEST_TARGETS:-settings_test sluiced sluice}
selected=(release)
[[ $targets == all ]] || selected+=(-R "'^(settings_test|docs_.*)\$'")
at_source "SLUICE_TEST_TARGETS='$targets' scripts/test.sh ${selected[*]}"
echo "ok: test.sh installs, builds and tests"
