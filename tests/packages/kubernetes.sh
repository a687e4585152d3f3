#!/usr/bin/env bash
# Tests the Kubernetes objects. They must be valid against the API's schema, and each kustomization
# must list all files of its folder. Runs the containers of the sidecar example and of the fleet with
# TLS as processes, with the users of the manifests: the servers must serve only permitted callers.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

objects=docker/kubernetes
node=$packages/kubernetes
mkdir -p "$node"
cp tests/packages/kubernetes/* "$node"
npm install --silent --no-audit --no-fund --prefix "$node"
# The kustomize in kubectl renders what `kubectl apply -k` applies.
command -v kubectl >/dev/null || fail "kubectl is missing"
files=()
for folder in rules central secure sidecar; do
  listed=$(sed -n 's/^  - \(path: \)\?//p' "$objects/$folder/kustomization.yaml" | grep -v '^\.\./' | sort)
  there=$(cd "$objects/$folder" && find . -name '*.yaml' -not -name kustomization.yaml -printf '%f\n' | sort)
  expect "kustomization of $folder" "$there" "$listed"
  kubectl kustomize "$objects/$folder" >"$node/$folder.yaml"
  files+=("$node/$folder.yaml")
done
node "$node/validate.mjs" --self-test "${files[@]}"
# shellcheck disable=SC2016
expect "secrets in variables" 0 "$(grep -c secretKeyRef "${files[@]}" | awk -F: '{n += $2} END {print n}')"
version=$(scripts/version.py)
expect "images without the version" "" \
  "$(grep -rnE 'image: sluice\b' docker | grep -v "image: sluice:$version\$" || true)"

find_programs
make_place
read -r redis metrics grpc http <<<"$(free_ports 4)"
echo redis-secret >"$place/password"
redis-server --port "$redis" --bind 127.0.0.1 --save '' --dir "$place" --requirepass redis-secret >/dev/null &
processes+=($!)

# pod NAME GRPC-PORT HTTP-PORT: prepares, in $place/NAME, the pod of the kustomization NAME.
pod() {
  mkdir "$place/$1"
  /usr/bin/python3 "$node/containers.py" "$node/$1.yaml" "$place/$1" "$bin" "$redis" "$2" "$3"
  install -D -m 644 "$place/password" "$place/$1/redis/password"
  # If a pod has an fsGroup, Kubernetes gives an emptyDir this group and mode.
  install -d -g "$(cat "$place/$1/group")" -m 2777 "$place/$1/run"
}
# serve NAME: starts the pod's server and waits until it is healthy.
serve() {
  bash "$place/$1/sluiced" 2>"$place/log" &
  sluiced=$!
  processes+=("$sluiced")
  wait_for 20 bash "$place/$1/sluiced-probe" || { cat "$place/log" >&2; fail "$1: not healthy"; }
  echo "ok: the server of $1 is healthy"
}
end() {
  kill -TERM "$sluiced"
  wait "$sluiced" && status=0 || status=$?
  expect "exit status of the server" 0 "$status"
}

pod sidecar "$grpc" "$metrics"
"$bin/sluice" validate "$place/sidecar/rules"
serve sidecar
expect "mode of the socket" 660 "$(stat -c %a "$place/sidecar/run/grpc.sock")"
bash "$place/sidecar/shop" >/dev/null 2>&1 &
shop=$!
processes+=("$shop")
counted() { curl -fsS "http://127.0.0.1:$metrics/metrics" | grep -q '^sluice_checks_total.*pay-per-user'; }
wait_for 20 counted || fail "the application's checks do not arrive"
echo "ok: the application's checks are counted"
kill -TERM "$shop"
wait "$shop" || true
# check WHAT STATUS COMMAND...: runs the tool and expects this exit status. 0: allowed, 1: denied,
# 2: an error.
check() {
  "${@:3}" >/dev/null 2>&1 && status=0 || status=$?
  expect "$1" "$2" "$status"
}
group=$(cat "$place/sidecar/group")
ask=("$bin/sluice" check shop endpoint=/boot/pay user=1 --cost 20 --addr "unix:$place/sidecar/run/grpc.sock")
as() { setpriv --reuid 10001 --regid 10001 --groups "$1" "${@:2}"; }
check "the first check" 0 as "$group" "${ask[@]}"
check "a check beyond the burst" 1 as "$group" "${ask[@]}"
check "a process that is not in the group" 2 as 10002 "${ask[@]}"
end

# The fleet gets a certificate like cert-manager's, and three tokens.
pod secure "$grpc" "$http"
mkdir "$place/secure/tls" "$place/secure/callers"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=sluice \
  -addext subjectAltName=DNS:sluice -keyout "$place/secure/tls/tls.key" \
  -out "$place/secure/tls/tls.crt" 2>/dev/null
cp "$place/secure/tls/tls.crt" "$place/secure/tls/ca.crt"
for caller in shop web prometheus; do echo "token-of-$caller" >"$place/secure/callers/$caller"; done
chmod -R go+rX "$place/secure"
serve secure
# page PATH [OPTION...]: requests a page with these options of curl, and prints the HTTP status.
page() {
  curl -sS --cacert "$place/secure/tls/ca.crt" --connect-to "sluice:$http:127.0.0.1:$http" \
    --output /dev/null --write-out '%{http_code}' "${@:2}" "https://sluice:$http/$1"
}
is_ready() { [[ $(page readyz) == 200 ]]; }
wait_for 20 is_ready || fail "the fleet's server is not ready"
expect "metrics without a token" 401 "$(page metrics)"
expect "metrics with Prometheus' token" 200 \
  "$(page metrics --header 'Authorization: Bearer token-of-prometheus')"
ask=("$bin/sluice" check shop endpoint=/boot/pay user=2 --addr "127.0.0.1:$grpc"
  --tls-ca "$place/secure/tls/ca.crt" --tls-server-name sluice)
check "a caller without a token" 2 "${ask[@]}"
check "the caller of another domain" 2 "${ask[@]}" --token-file "$place/secure/callers/web"
check "the caller" 0 "${ask[@]}" --token-file "$place/secure/callers/shop"
check "without TLS" 2 "$bin/sluice" check shop endpoint=/boot/pay user=2 --addr "127.0.0.1:$grpc"
end
