#!/usr/bin/env bash
# Installs npm packages for a test, in exactly the versions of a package-lock.json.
#   install_npm.sh SOURCE DIRECTORY
# Installs the packages of SOURCE/package-lock.json into DIRECTORY/node_modules. If they are already
# there, the script does nothing and needs no network.
set -euo pipefail
source=$1
directory=$2

mkdir -p "$directory"
if cmp -s "$source/package-lock.json" "$directory/installed.json"; then
  exit 0
fi
for program in node npm; do
  if ! command -v "$program" >/dev/null; then
    echo "install_npm.sh: $program is missing; scripts/setup.sh installs it" >&2
    exit 1
  fi
done
cp "$source/package.json" "$source/package-lock.json" "$directory"
# No package needs to run its install scripts.
if ! npm ci --prefix "$directory" --ignore-scripts --no-audit --no-fund --no-update-notifier; then
  echo "install_npm.sh: npm ci has failed, so tests of $source cannot run. npm fetches the" \
    "packages of $source/package-lock.json from the npm registry: is there a network?" >&2
  exit 1
fi
cp "$source/package-lock.json" "$directory/installed.json"
