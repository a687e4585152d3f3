#!/usr/bin/env bash
# Builds docker/Dockerfile, starts the image as its user on a read-only file system, sends a check
# from outside, and stops it. If ARCHIVE is given, tests the image in it instead of building one.
#   tests/packages/image.sh [ARCHIVE]
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$(dirname "${BASH_SOURCE[0]}")/images.sh"

megabyte=1000000
limit=60 # the image must add fewer megabytes to its base

size_of() { du --summarize --bytes --one-file-system "$1" | cut -f1; }

import_base
image=sluice-test
if [[ -n ${1:-} ]]; then
  gunzip --stdout "$1" >"$packages/image.tar"
  image=$(buildah pull --quiet "docker-archive:$packages/image.tar")
  rm "$packages/image.tar"
else
  # Layers are not cached: storing the layer with the compiler takes longer than installing the
  # compiler again.
  ccache=${CCACHE_DIR:-$HOME/.cache/ccache}
  mkdir -p "$ccache"
  buildah build --isolation chroot --network host --pull=never --format docker --layers=false \
    --volume "$ccache:/root/.cache/ccache" --file docker/Dockerfile --tag "$image" .
fi

container=$(buildah from --pull=never "$image")
clean=$(buildah from --pull=never "$base")
trap 'clean_up; buildah rm "$container" "$clean" >/dev/null' EXIT
files=$(buildah mount "$container")

config() { buildah inspect --type image "$image" | jq -r ".Docker.config.$1"; }
user=$(config User)
expect "not root" 65532:65532 "$user"
expect "stop signal" SIGTERM "$(config StopSignal)"
expect "version's label" "sluice $(config 'Labels."org.opencontainers.image.version"')" \
  "$(chroot "$files" /usr/bin/sluice --version)"
expect "Envoy Gateway's command" "$(chroot "$files" /usr/bin/sluiced --version)" \
  "$(chroot "$files" /bin/ratelimit --version)"
for tool in gcc cc make cmake ninja python3; do
  [[ -z $(chroot "$files" /bin/sh -c "command -v $tool") ]] || fail "the image has $tool"
done
over=$((($(size_of "$files") - $(size_of "$(buildah mount "$clean")")) / megabyte))
((over < limit)) || fail "the image adds $over MB to its base; fewer than $limit MB are allowed"
echo "ok: the image adds $over MB to its base"

read -r grpc http <<<"$(free_ports 2)"
mapfile -t environment < <(config 'Env[]')
environment+=("SLUICE_GRPC=127.0.0.1:$grpc" "SLUICE_HTTP=127.0.0.1:$http"
  "SLUICE_ADDR=127.0.0.1:$grpc")
mapfile -t entrypoint < <(config 'Entrypoint[]')
mapfile -t health < <(config 'Healthcheck.Test[1:][]')

# in_container COMMAND...: runs the command in the image, on a read-only file system, like a
# container engine.
in_container() {
  # shellcheck disable=SC2016
  exec unshare --mount bash -euc '
    image=$1 user=$2
    shift 2
    mount --bind "$image" "$image"
    mount --rbind /dev "$image/dev"
    mount -t proc proc "$image/proc"
    mount -o remount,bind,ro "$image"
    exec chroot "$image" /usr/bin/setpriv --reuid "${user%:*}" --regid "${user#*:}" \
      --clear-groups --no-new-privs --bounding-set=-all /usr/bin/env -i "$@"' \
    in_container "$files" "$user" "${environment[@]}" "$@"
}

# This folder belongs to the user, so writing can fail only if the file system is read-only.
(in_container /usr/bin/touch /run/sluice/here) 2>/dev/null && fail "the file system can be written"
(in_container "${entrypoint[@]}") &
server=$!
processes=("$server")
wait_for 20 curl -fsS "http://127.0.0.1:$http/readyz" || fail "the server is not ready"
expect "user of the process" 65532 "$(ps -o uid= -p "$server" | tr -d ' ')"
expect "health check" serving "$(in_container "${health[@]}")"
expect "first" DECISION_ALLOWED "$(decision "127.0.0.1:$http" 1)"
expect "second" DECISION_DENIED "$(decision "127.0.0.1:$http" 1)"
kill -TERM "$server"
wait "$server" && status=0 || status=$?
processes=()
expect "exit status after SIGTERM" 0 "$status"
(in_container "${health[@]}") >/dev/null 2>&1 && status=0 || status=$?
expect "health check of a server that has ended" 1 "$status"
