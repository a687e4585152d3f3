#!/usr/bin/env bash
# Builds and starts a server, makes a decision, and prints commands to try next.
#   scripts/run.sh                runs the server in the foreground until Ctrl-C
#   scripts/run.sh --background   leaves the server running in the background
# The server reads SLUICE_* variables: SLUICE_GRPC and SLUICE_HTTP are its addresses, SLUICE_REDIS is
# its Redis. Without SLUICE_REDIS, it counts in memory. If a server already runs, uses that server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

background=false
case "${1:-}" in
  "") ;;
  --background) background=true ;;
  -h | --help)
    sed -n '2,6s/^# //p' scripts/run.sh
    exit
    ;;
  *)
    sed -n '2,6s/^# //p' scripts/run.sh >&2
    exit 2
    ;;
esac

grpc=${SLUICE_GRPC:-127.0.0.1:8081}
http=${SLUICE_HTTP:-127.0.0.1:8080}
unset SLUICE_ADDR  # it would override --addr's default in the tool
bin=build/release/bin
request=(shop endpoint=/boot/pay method=POST user=42)
log=build/run/sluiced.log
pid_file=build/run/sluiced.pid

answers() { "$bin/sluice" check "${request[@]}" --peek --addr "$grpc" >/dev/null 2>&1 || (($? == 1)); }

# Prints the pid of the server that an earlier run of this script started. Fails if it has ended.
our_pid() {
  local pid
  pid=$(cat "$pid_file" 2>/dev/null) && [[ $(cat "/proc/$pid/comm" 2>/dev/null) == sluiced ]] &&
    echo "$pid"
}

decide_and_show() {
  printf '\nA decision (sluice check %s):\n\n' "${request[*]}"
  "$bin/sluice" check "${request[@]}" --addr "$grpc" | sed 's/^/    /' || true
  local to='' metrics="curl http://$http/metrics"
  command -v curl >/dev/null || metrics="http://$http/metrics     # in a browser"
  [[ $grpc == 127.0.0.1:8081 ]] || to=" --addr $grpc"
  cat <<TEXT

Try next, in another terminal:

    cd $PWD
    $bin/sluice check ${request[*]}$to
    $bin/sluice check ${request[*]} --repeat 100 --concurrency 8$to
    $bin/sluice check ${request[*]} --json$to
    $metrics
    \$EDITOR config/rules/        # the server's rules; docs/rules.md explains them

TEXT
}

stop_hint() {
  local pid
  if pid=$(our_pid); then
    echo "To stop the server: kill $pid   (or press Ctrl-C in its terminal)"
  else
    echo "Stop the server where it was started, or start another one:"
    echo "    SLUICE_GRPC=127.0.0.1:9081 SLUICE_HTTP=127.0.0.1:9080 scripts/run.sh"
  fi
}

# If two scripts are started at once, the second waits, and then uses the server of the first.
mkdir -p "$(dirname "$log")"
exec {lock}>build/run/lock
flock "$lock"

scripts/setup.sh build
echo "run: building; the first build takes some minutes"
[[ -e build/release/build.ninja ]] || cmake --preset release
cmake --build --preset release --target sluiced sluice

if answers; then
  printf '\nrun: a server already answers at %s; using that one.\n' "$grpc"
  decide_and_show
  stop_hint
  exit 0
fi

server=("$bin/sluiced" --rules "${SLUICE_RULES:-config/rules}" --grpc "$grpc" --http "$http")
printf '\nrun: starting %s\n' "${server[*]}"
if $background; then
  setsid "${server[@]}" </dev/null >"$log" 2>&1 {lock}>&- &
else
  "${server[@]}" </dev/null {lock}>&- &
fi
pid=$!
echo "$pid" >"$pid_file"
stop() {
  kill -TERM "$pid" 2>/dev/null || true
  wait "$pid" && status=0 || status=$?
  rm -f "$pid_file"
  exit "$status"
}
trap stop INT TERM HUP

for _ in {1..100}; do
  answers && break
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
if ! answers; then
  if kill -0 "$pid" 2>/dev/null; then
    echo "run: the server has not answered at $grpc for 10 s; stopping it" >&2
    stop
  fi
  $background && cat "$log" >&2
  rm -f "$pid_file"
  echo "run: the server ended; its log is above. If another program uses $grpc or $http, run:" >&2
  echo "    SLUICE_GRPC=127.0.0.1:9081 SLUICE_HTTP=127.0.0.1:9080 scripts/run.sh" >&2
  exit 1
fi

exec {lock}>&-

decide_and_show
if $background; then
  echo "The server runs in the background and logs to $log. To stop it: kill $pid"
  exit 0
fi
echo "The server runs until you press Ctrl-C."
wait "$pid" && status=0 || status=$?
rm -f "$pid_file"
exit "$status"
