#!/usr/bin/env bash
# Tests the Debian package (PACKAGE, or one built here) in a clean Debian: it installs, the
# service's command runs as the service's user, an upgrade keeps edited rules, and a purge leaves
# nothing behind.
#   tests/packages/debian.sh [PACKAGE]
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

old=${1:-}
if [[ -z $old ]]; then
  scripts/setup.sh build
  rm -f build/package/sluice_*.deb
  logged configure cmake --preset package
  cmake --build --preset package
  old=$(echo build/package/sluice_*.deb)
fi

# make_later: makes a later version of the same package, with other example rules.
make_later() {
  dpkg-deb --raw-extract "$old" "$root/tmp/later"
  sed -i 's/^Version: .*/&+later/' "$root/tmp/later/DEBIAN/control"
  echo "# later" >>"$root/tmp/later/etc/sluice/rules/shop.yaml"
  dpkg-deb --build --root-owner-group "$root/tmp/later" "$root/tmp/later.deb" >/dev/null
}
# install_package: like unattended upgrades, keeps the files that the administrator has edited.
install_package() {
  inside apt-get -q install -y --no-install-recommends -o Dpkg::Options::=--force-confdef \
    -o Dpkg::Options::=--force-confold "$1"
}

make_root debian
logged update inside apt-get -q update
# Every Debian that boots has these packages.
logged systemd inside apt-get -q install -y --no-install-recommends systemd procps
cp "$old" "$root/tmp/sluice.deb"
logged install install_package /tmp/sluice.deb
for file in /usr/bin/sluiced /usr/bin/sluice /usr/share/man/man1/sluice.1 \
  /usr/share/man/man8/sluiced.8 /usr/share/bash-completion/completions/sluice \
  /usr/share/doc/sluice/{copyright,changelog.gz} /usr/share/sluice/proto/sluice/v1/rate_limiter.proto; do
  [[ -e $root$file || -e $root$file.gz ]] || fail "$file is missing"
done
# shellcheck disable=SC2016
expect "completion of health" "--help --addr" "$(inside bash -c '
  source /usr/share/bash-completion/completions/sluice
  COMP_WORDS=(sluice health --) COMP_CWORD=2
  _sluice
  echo "${COMPREPLY[*]}"' | cut -d' ' -f1,2)"

# hardened PROGRAM: checks that the hardening options of cmake/compiler.cmake have an effect.
hardened() {
  local found
  found=$(readelf --wide --file-header --program-headers --dynamic --dyn-syms "$1")
  for mark in 'Type: +DYN' GNU_RELRO 'FLAGS.* BIND_NOW' __stack_chk_fail@ '__[a-z]+_chk@'; do
    grep -qE "$mark" <<<"$found" || fail "$1 is not hardened: readelf shows no $mark"
  done
  echo "ok: $1 is hardened"
}
hardened "$root/usr/bin/sluiced"
hardened "$root/usr/bin/sluice"

unit=$root/usr/lib/systemd/system/sluiced.service
# The verifier needs the service's user and program. They exist in $root, not on this host.
systemd-analyze verify --root "$root" --man=no sluiced.service
exposure=$(systemd-analyze security --offline=true --root "$root" sluiced.service | tail -1)
echo "ok: $exposure"
expect "enabled at boot" enabled "$(systemctl --root "$root" is-enabled sluiced.service)"

read -r grpc http <<<"$(free_ports 2)"
user=$(sed -n 's/^User=//p' "$unit")
command=$(sed -n 's/^ExecStart=//p' "$unit")
directory=/run/$(sed -n 's/^RuntimeDirectory=//p' "$unit")
mode=$(sed -n 's/^RuntimeDirectoryMode=//p' "$unit")
# start [NAME=VALUE...]: starts the service like systemd, with its command, user and environment.
start() {
  local arguments
  inside rm -rf "$directory"
  inside install -d -o "$user" -g "$user" -m "$mode" "$directory"
  read -ra arguments <<<"$command"
  chroot --userspec="$user:$user" "$root" /usr/bin/env -i XDG_RUNTIME_DIR=/run \
    "SLUICE_GRPC=127.0.0.1:$grpc" "SLUICE_HTTP=127.0.0.1:$http" "$@" "${arguments[@]}" \
    2>"$packages/sluiced.log" &
  server=$!
  processes=("$server")
  wait_for 20 curl -fsS "http://127.0.0.1:$http/readyz" ||
    { cat "$packages/sluiced.log"; fail "the server is not ready"; }
}
stop() {
  kill -TERM "$server"
  wait "$server" && status=0 || status=$?
  processes=()
  expect "exit status after SIGTERM" 0 "$status"
}

start
expect "user of the process" "$(inside id -u "$user")" "$(ps -o uid= -p "$server" | tr -d ' ')"
expect "health" serving "$(inside sluice health --addr "127.0.0.1:$grpc")"
expect "first" DECISION_ALLOWED "$(decision "127.0.0.1:$http" 1)"
expect "second" DECISION_DENIED "$(decision "127.0.0.1:$http" 1)"
# explains ADDRESS SOCKET: runs the tool as root. SOCKET belongs to another user. Without --admin,
# the tool must fail and name SOCKET in its error. With --admin unix:SOCKET, it must work.
explains() {
  local said command=(sluice explain shop endpoint=/boot/pay user=1)
  said=$(inside "${command[@]}" --addr "$1" 2>&1) && fail "the tool opens the socket of another user"
  [[ $said == *"--admin unix:$2"* ]] || fail "the tool does not name $2: $said"
  inside "${command[@]}" --addr "$1" --admin "unix:$2" >/dev/null || fail "root cannot explain"
  echo "ok: root opens $2"
}
explains "127.0.0.1:$grpc" "$directory/sluiced-$grpc.admin"

rules=/etc/sluice/rules/shop.yaml
sed -i 's/limit: 1, window: 1m/limit: 2, window: 1m/' "$root$rules"
kill -HUP "$server"
reloaded() { grep -q 'changed (shop/text-code-per-phone' "$packages/sluiced.log"; }
wait_for 20 reloaded || fail "the edited rule is not in force"
expect "second, as edited" DECISION_ALLOWED "$(decision "127.0.0.1:$http" 1)"
stop

socket=unix:$directory/grpc.sock
start "SLUICE_GRPC=$socket" SLUICE_GRPC_SOCKET_MODE=0660
asks() { chroot --userspec=nobody:nogroup "$@" "$root" /usr/bin/sluice health --addr "$socket" 2>&1; }
expect "health check by a member of the group" serving "$(asks --groups="$user")"
asks --groups= >/dev/null && fail "users outside the group can use the socket"
inside sluice rules --addr "$socket" >/dev/null || fail "root cannot list the rules"
echo "ok: root opens $directory/grpc.sock.admin"
stop

make_later
logged upgrade install_package /tmp/later.deb
# shellcheck disable=SC2016
expect "version" "$(dpkg-deb --field "$root/tmp/later.deb" Version)" \
  "$(inside dpkg-query -W -f '${Version}' sluice)"
start
for code in first second; do
  expect "$code after the upgrade" DECISION_ALLOWED "$(decision "127.0.0.1:$http" 2)"
done
expect "third after the upgrade" DECISION_DENIED "$(decision "127.0.0.1:$http" 2)"
stop

echo SLUICE_REDIS=redis://:secret@redis >"$root/etc/sluice/environment"
logged remove inside apt-get -q remove -y sluice
[[ -e $root$rules && ! -e $root/usr/bin/sluiced ]] ||
  fail "a removal must keep the rules and remove the programs"
logged purge inside apt-get -q purge -y sluice
left=$(cd "$root" && find etc usr var/lib/dpkg/info var/lib/systemd \
  -path '*sluice*' -not -path '*/apt/*' 2>/dev/null)
expect "files after a purge" "" "$left"
inside getent passwd sluice && fail "the user is still there after a purge"
echo "ok: a purge leaves nothing"
