#!/usr/bin/env bash
# Tests the files that scripts/release.sh builds from the last commit. The checksums are correct. In
# a clean Debian without a compiler, the package is installed and its server decides a check, within
# a minute. Package and image pass their own tests (debian.sh, image.sh).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds_to_decide=60
files=$packages/release
version=$(scripts/version.py)
source "$(dirname "${BASH_SOURCE[0]}")/images.sh"
import_base
scripts/release.sh "$files"
(cd "$files" && sha256sum --check --strict SHA256SUMS)
expect "files" "SHA256SUMS sluice-$version-image-amd64.tar.gz sluice-$version.tar.gz \
sluice-client-$version.jar sluice-client-$version.tgz sluice-client-cpp-$version.tar.gz \
sluice-client-go-$version.tar.gz sluice_${version}_amd64.deb sluice_client-$version-py3-none-any.whl" \
  "$(cd "$files" && printf '%s\n' ./* | LC_ALL=C sort | sed 's|^./||' | paste -sd ' ')"

make_root released
for tool in cc c++ cmake; do
  inside sh -c "command -v $tool" && fail "the clean Debian has $tool"
done
cp "$files/sluice_${version}_amd64.deb" "$root/tmp/sluice.deb"
read -r grpc http <<<"$(free_ports 2)"
begin=$SECONDS
inside apt-get -q update >/dev/null
logged install inside apt-get -q install -y --no-install-recommends /tmp/sluice.deb
chroot "$root" /usr/bin/sluiced --config /etc/sluice/sluice.yaml --grpc "127.0.0.1:$grpc" \
  --http "127.0.0.1:$http" --admin off 2>"$packages/sluiced.log" &
server=$!
processes=("$server")
wait_for 20 inside sluice health --addr "127.0.0.1:$grpc" || fail "the server does not answer"
inside sluice check shop endpoint=/boot/pay user=42 --addr "127.0.0.1:$grpc"
took=$((SECONDS - begin))
((took <= seconds_to_decide)) || fail "installed and decided in $took s; $seconds_to_decide are allowed"
echo "ok: installed and decided in $took s"
kill -TERM "$server"
wait "$server"
processes=()

tests/packages/debian.sh "$files/sluice_${version}_amd64.deb"
tests/packages/image.sh "$files/sluice-$version-image-amd64.tar.gz"
