#!/usr/bin/env bash
# The Kubernetes objects: valid by the API's schema, complete in their kustomizations; the sidecar
# example's two containers, run as processes with their users, share a socket.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

objects=docker/kubernetes
node=$packages/kubernetes
mkdir -p "$node"
cp tests/packages/kubernetes/* "$node"
npm install --silent --no-audit --no-fund --prefix "$node"
mapfile -t files < <(find "$objects" -name '*.yaml' -not -name kustomization.yaml | sort)
node "$node/validate.mjs" --self-test "${files[@]}"

for folder in rules central sidecar; do
  listed=$(sed -n 's/^  - //p' "$objects/$folder/kustomization.yaml" | grep -v '^\.\./' | sort)
  there=$(cd "$objects/$folder" && find . -name '*.yaml' -not -name kustomization.yaml -printf '%f\n' | sort)
  expect "kustomization of $folder" "$there" "$listed"
done

# The rules of the ConfigMap are rules.
find_programs
make_place
mkdir "$place/rules"
/usr/bin/python3 - "$objects/rules/rules.yaml" "$place/rules" <<'PYTHON'
import pathlib, sys, yaml
for name, text in yaml.safe_load(open(sys.argv[1]))["data"].items():
    pathlib.Path(sys.argv[2], name).write_text(text)
PYTHON
"$bin/sluice" validate "$place/rules"

# The two containers: command, environment and user as the manifest says; the paths of their mounts
# and the port are ours.
read -r redis metrics <<<"$(free_ports 2)"
redis-server --port "$redis" --bind 127.0.0.1 --save '' --dir "$place" >/dev/null &
processes+=($!)
/usr/bin/python3 - "$objects/sidecar/application.yaml" "$place" "$bin" "$redis" "$metrics" <<'PYTHON'
import pathlib, shlex, sys, yaml
manifest, place, bin, redis, metrics = sys.argv[1:]
pod = yaml.safe_load(open(manifest))["spec"]["template"]["spec"]
group = pod["securityContext"]["fsGroup"]

def ours(text):
    return (text.replace("/run/sluice", place + "/run").replace("/usr/bin", bin)
            .replace("0.0.0.0:9102", "127.0.0.1:" + metrics))

def script(container, command):
    user = container["securityContext"]
    values = {it["name"]: ours(it.get("value", "redis://127.0.0.1:" + redis))
              for it in container["env"]}
    become = ["setpriv", "--reuid", user["runAsUser"], "--regid", user["runAsGroup"],
              "--groups", group, "--no-new-privs", "--bounding-set", "-all", "env", "-i"]
    words = [*become, *(f"{name}={value}" for name, value in values.items()), *map(ours, command)]
    return "exec " + shlex.join(map(str, words)) + ' "$@"\n'

[sidecar], [application] = pod["initContainers"], pod["containers"]
for name, container, command in (
        ("sluiced", sidecar, ["/usr/bin/sluiced", "--rules", place + "/rules"]),
        ("probe", sidecar, sidecar["livenessProbe"]["exec"]["command"]),
        ("shop", application, application["command"]),
        ("check", application, ["/usr/bin/sluice", "check", "shop", "endpoint=/boot/pay"])):
    pathlib.Path(place, name).write_text(script(container, command))
pathlib.Path(place, "group").write_text(str(group))
PYTHON
# As the kubelet makes an emptyDir of a pod with fsGroup.
install -d -g "$(cat "$place/group")" -m 2777 "$place/run"

bash "$place/sluiced" 2>"$place/log" &
sluiced=$!
processes+=("$sluiced")
wait_for 20 bash "$place/probe" || { cat "$place/log" >&2; fail "the sidecar is not healthy"; }
echo "ok: the sidecar is healthy"
expect "mode of the socket" 660 "$(stat -c %a "$place/run/grpc.sock")"
bash "$place/shop" >/dev/null 2>&1 &
shop=$!
processes+=("$shop")
counted() { curl -fsS "http://127.0.0.1:$metrics/metrics" | grep -q '^sluice_checks_total.*pay-per-user'; }
wait_for 20 counted || fail "the application's checks do not arrive"
echo "ok: the application's checks are counted"
kill -TERM "$shop"
wait "$shop" || true
bash "$place/check" user=1 --cost 20 >/dev/null || fail "the first check is not allowed"
bash "$place/check" user=1 --cost 20 >/dev/null && status=0 || status=$?
expect "a check beyond the burst" 1 "$status"
setpriv --reuid 10002 --regid 10002 --clear-groups "$bin/sluice" check shop \
  --addr "unix:$place/run/grpc.sock" >/dev/null 2>&1 && status=0 || status=$?
expect "a process that is not in the group" 2 "$status"
kill -TERM "$sluiced"
wait "$sluiced" && status=0 || status=$?
expect "exit status of the sidecar" 0 "$status"
