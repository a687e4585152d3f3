#!/usr/bin/env bash
# Tests `cmake --install` with prefixes of each kind. The programs and settings in the systemd unit
# must exist, the unit's command must serve, and man must find the manuals. Installs to the real
# prefixes. Overlays keep the files out of the machine's folders, and end with this script.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

make_place
overlays=$packages/overlays
mkdir -p "$overlays"
mount -t tmpfs overlays "$overlays"
# hide FOLDER: keeps later changes to FOLDER in memory.
hide() {
  mkdir -p "$overlays$1/upper" "$overlays$1/work"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=$overlays$1/upper,workdir=$overlays$1/work" "$1"
}
scripts/setup.sh build
for folder in /etc /opt /usr /root /home; do hide "$folder"; done
version=$(scripts/version.py)

# serves UNIT: runs the unit's command, which uses the installed settings and rules. The server must
# become ready and decide checks.
serves() {
  local command grpc http
  read -ra command <<<"$(sed -n 's/^ExecStart=//p' "$1")"
  read -r grpc http <<<"$(free_ports 2)"
  "${command[@]}" --grpc "127.0.0.1:$grpc" --http "127.0.0.1:$http" --admin off 2>"$place/log" &
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
}

# installs PREFIX SYSCONFDIR SETTINGS: installs and tests the files. SETTINGS: where the unit must
# find the settings file.
installs() {
  local prefix=$1 unit=$1/lib/systemd/system/sluiced.service
  echo "----- $prefix"
  logged configure cmake --preset package -B build/prefix -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_SYSCONFDIR="$2"
  cmake --build build/prefix
  # CMake treats files whose times differ by less than a second as equal.
  CMAKE_INSTALL_ALWAYS=1 logged install cmake --install build/prefix
  expect "version" "sluiced $version" "$("$prefix/bin/sluiced" --version)"
  expect "command of the service" "$prefix/bin/sluiced --config $3" \
    "$(sed -n 's/^ExecStart=//p' "$unit")"
  expect "file of secrets" "${3%sluice.yaml}environment" \
    "$(sed -n 's/^EnvironmentFile=-//p' "$unit")"
  serves "$unit"
  for page in man1/sluice.1.gz man8/sluiced.8.gz; do
    MANWIDTH=80 man --warnings --local-file "$prefix/share/man/$page" 2>"$place/warnings" >"$place/page"
    grep -q '^SYNOPSIS' "$place/page" || fail "$page has no synopsis"
    expect "warnings about $page" "" "$(cat "$place/warnings")"
  done
}

installs /opt/sluice etc /opt/sluice/etc/sluice/sluice.yaml
useradd --system sluice
systemctl enable /opt/sluice/lib/systemd/system/sluiced.service
expect "unit that systemd starts" /opt/sluice/lib/systemd/system/sluiced.service \
  "$(readlink /etc/systemd/system/multi-user.target.wants/sluiced.service)"
systemctl disable sluiced.service
installs /usr etc /etc/sluice/sluice.yaml
installs /usr/local etc /usr/local/etc/sluice/sluice.yaml
installs /usr/local /etc /etc/sluice/sluice.yaml
installs /root/sluice etc /root/sluice/etc/sluice/sluice.yaml
expect "access to home directories, if the prefix is in one" read-only \
  "$(sed -n 's/^ProtectHome=//p' /root/sluice/lib/systemd/system/sluiced.service)"
