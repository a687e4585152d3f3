#!/usr/bin/env bash
# `cmake --install` to a folder of one's own: the programs run from there with the settings and rules
# beside them, and man reads the manuals.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

make_place
scripts/setup.sh build
# Settings and unit name the place, so it is given before the build.
logged configure cmake --preset package -B build/prefix -DCMAKE_INSTALL_PREFIX="$place/sluice" \
  -DCMAKE_INSTALL_SYSCONFDIR=etc
cmake --build build/prefix
logged install cmake --install build/prefix
prefix=$place/sluice

version=$(sed -n 's/^project(sluice VERSION \([^ ]*\).*/\1/p' CMakeLists.txt)
expect "version" "sluiced $version" "$("$prefix/bin/sluiced" --version)"
for page in man1/sluice.1.gz man8/sluiced.8.gz; do
  MANWIDTH=80 man --warnings --local-file "$prefix/share/man/$page" 2>"$place/warnings" >"$place/page"
  grep -q '^SYNOPSIS' "$place/page" || fail "$page has no synopsis"
  expect "warnings about $page" "" "$(cat "$place/warnings")"
done
expect "command of the service" "$prefix/bin/sluiced --config $prefix/etc/sluice/sluice.yaml" \
  "$(sed -n 's/^ExecStart=//p' "$prefix/lib/systemd/system/sluiced.service")"

read -r grpc http <<<"$(free_ports 2)"
"$prefix/bin/sluiced" --config "$prefix/etc/sluice/sluice.yaml" --grpc "127.0.0.1:$grpc" \
  --http "127.0.0.1:$http" --admin off 2>"$place/log" &
server=$!
processes=("$server")
wait_for 20 curl -fsS "http://127.0.0.1:$http/readyz" ||
  { cat "$place/log" >&2; fail "the server is not ready"; }
expect "first" DECISION_ALLOWED "$(decision "127.0.0.1:$http" 1)"
expect "second" DECISION_DENIED "$(decision "127.0.0.1:$http" 1)"
kill -TERM "$server"
wait "$server" && status=0 || status=$?
processes=()
expect "exit status after SIGTERM" 0 "$status"
