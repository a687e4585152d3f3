# shellcheck shell=bash
# Functions for images without a container engine, to be sourced after common.sh.
# shellcheck disable=SC2154
base=docker.io/library/debian:bookworm-slim

buildah() {
  command buildah --storage-driver vfs --root "$packages/images" \
    --runroot "$packages/run" "$@"
}

# import_base: makes an image from a clean Debian and names it $base, so that no registry is needed.
# Like Debian's slim image, it has no manuals and no translations.
import_base() {
  buildah inspect --type image "$base" >/dev/null 2>&1 && return
  make_debian
  local container slim
  container=$(buildah from scratch)
  slim=$(buildah mount "$container")
  cp -a "$debian/." "$slim"
  rm -rf "$slim"/usr/share/{doc,info,locale,man}/*
  buildah config --cmd /bin/bash "$container"
  buildah commit --quiet --rm "$container" "$base" >/dev/null
}
