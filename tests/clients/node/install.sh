#!/usr/bin/env bash
# Installs the packages that client.js needs, exactly those of package-lock.json.
#   install.sh DIRECTORY
# Installs them into DIRECTORY/node_modules. If they are already there, it does nothing and needs no
# network.
set -euo pipefail
source=$(dirname "${BASH_SOURCE[0]}")
directory=$1

mkdir -p "$directory"
if cmp -s "$source/package-lock.json" "$directory/installed.json"; then
  exit 0
fi
for program in node npm; do
  if ! command -v "$program" >/dev/null; then
    echo "install.sh: $program is missing; scripts/setup.sh installs it" >&2
    exit 1
  fi
done
cp "$source/package.json" "$source/package-lock.json" "$directory"
# No package needs its install scripts.
if ! npm ci --prefix "$directory" --ignore-scripts --no-audit --no-fund --no-update-notifier; then
  echo "install.sh: npm ci has failed, so the Node client cannot be tested. It fetches the packages" \
    "of tests/clients/node/package-lock.json from the npm registry: is there a network?" >&2
  exit 1
fi
cp "$source/package-lock.json" "$directory/installed.json"
