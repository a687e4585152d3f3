#!/usr/bin/env bash
# Tests docker/compose.yaml without a container engine. Mounted files must exist and be valid. The
# servers and nginx run as processes, and must limit a site together.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_programs

make_place
mkdir "$place/html"

# Services with the same image differ only in their ports.
/usr/bin/python3 - docker/compose.yaml "$place" <<'PYTHON'
import pathlib, sys, yaml
file = pathlib.Path(sys.argv[1])
services = yaml.safe_load(file.read_text())["services"]
for name, service in services.items():
    for volume in service.get("volumes", []):
        assert (file.parent / volume.split(":")[0]).exists(), f"{name}: no {volume}"
    assert set(service.get("depends_on", {})) <= set(services), name
servers = {name: it for name, it in services.items() if name.startswith("sluiced")}
assert len(servers) == 3 and all(it["read_only"] for it in servers.values())
environment = servers["sluiced-1"]["environment"]
pathlib.Path(sys.argv[2], "environment").write_text(
    "".join(f"{key}={value}\n" for key, value in environment.items()))
PYTHON
echo "ok: every mounted file exists"
# promtool needs the alerts beside prometheus.yml, where docker/compose.yaml mounts them.
cp docker/compose/prometheus.yml docker/prometheus/alerts.yml "$place"
promtool check config "$place/prometheus.yml" >/dev/null || fail "Prometheus refuses its settings"
echo "ok: Prometheus reads its settings"

read -r redis site <<<"$(free_ports 2)"
read -ra http <<<"$(free_ports 3)"
redis-server --port "$redis" --bind 127.0.0.1 --save '' --dir "$place" >/dev/null &
processes+=($!)
mapfile -t environment < <(sed "s/redis:6379/127.0.0.1:$redis/" "$place/environment")
sed "s/listen 8088/listen 127.0.0.1:$site/" docker/compose/nginx.conf >"$place/nginx.conf"
# start_server NUMBER: starts the process of the service sluiced-NUMBER.
start_server() {
  local address=127.0.0.1:${http[$1 - 1]}
  env "${environment[@]}" "$bin/sluiced" --rules config/rules --admin off \
    --grpc "unix:$place/grpc-$1" --http "$address" 2>"$place/sluiced-$1.log" &
  servers[$1]=$!
  processes+=($!)
  wait_for 20 curl -fsS "http://$address/readyz" || fail "sluiced-$1 is not ready"
}
servers=()
for number in 1 2 3; do
  start_server "$number"
  sed -i "s/sluiced-$number:8080/127.0.0.1:${http[number - 1]}/" "$place/nginx.conf"
done
nginx -p "$place" -e stderr -c "$place/nginx.conf" -g "daemon off; pid $place/nginx.pid;" &
processes+=($!)
answers() { curl -sS -o "$place/body" "http://127.0.0.1:$site/"; }
wait_for 20 answers || fail "nginx does not answer"

# The limit is 20 at once and 10 a second. So of 200 requests at once, at least 20 must be served,
# and some denied.
for _ in {1..200}; do echo "url=http://127.0.0.1:$site/boot/pay"; done |
  curl -s -Z --no-progress-meter -K - -o /dev/null -w '%{http_code}\n' | sort | uniq -c >"$place/codes"
allowed=$(awk '$2 == 200 { print $1 }' "$place/codes")
denied=$(awk '$2 == 429 { print $1 }' "$place/codes")
((${allowed:-0} >= 20 && ${denied:-0} > 0 && allowed + denied == 200)) ||
  fail "of 200 requests: $(cat "$place/codes")"
echo "ok: of 200 requests at once $allowed are served, $denied denied"
for number in 1 2 3; do
  curl -fsS "http://127.0.0.1:${http[number - 1]}/metrics" | grep '^sluice_checks_total{.*pay-per-user' |
    grep -qv ' 0$' || fail "sluiced-$number got no check"
done
echo "ok: every server got checks"

# nginx does not send bodies to the servers, so they must not wait for them.
served() {
  [[ $(curl -sS "$@" -o /dev/null -w '%{http_code}' "http://127.0.0.1:$site/boot/pay") =~ ^(200|429)$ ]]
}
served --data name=a || fail "nginx refuses a request with a body"
echo "ok: a request with a body is served or denied"

# If servers stop, nginx stops using them. When they are back, nginx must soon use them again.
# Otherwise, nginx could leave out all servers during a rolling restart.
kill -TERM "${servers[@]}"
wait "${servers[@]}" || fail "a server has ended with an error"
for _ in {1..6}; do ! served 2>/dev/null || fail "a request is served without a server"; done
for number in 1 2 3; do start_server "$number"; done
wait_for 5 served || fail "nginx does not use servers that are back"
echo "ok: nginx uses servers that are back"
