#!/usr/bin/env bash
# In a bare Debian root, as root: installs the package, uses it as its readers would, and removes it.
# Usage: deb_root_test.sh DEB C_SOURCE
set -euo pipefail
deb=$(realpath "$1") source=$(realpath "$2")
export DEBIAN_FRONTEND=noninteractive
install_packages() { apt-get install --yes --no-install-recommends "$@"; }
fail() {
  echo "$*"
  exit 1
}

cd /
apt-get update
install_packages "$deb"
echo "== the tool"
reprofuse --version
reprofuse generate --chat --prompt "What is 12 + 30?" | tee /tmp/answer
grep -q "Answer: 42" /tmp/answer

echo "== the server"
reprofuse serve --port 0 --quiet >/tmp/serve &
server=$!
until grep -q "^listening on " /tmp/serve; do
  kill -0 "$server" || fail "the server ended before it listened"
  sleep 0.2
done
port=$(sed -n 's/.*://p' /tmp/serve)
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
head -n 1 <&3 | grep -F "200 OK"
kill "$server"
wait "$server"

echo "== the units: installed, not enabled, and understood"
[[ -z $(find /etc/systemd -name 'reprofuse*') ]] || fail "a unit is enabled"
install_packages systemd man-db
systemd-analyze verify reprofuse.service reprofuse@8001.service

echo "== the manual page"
man --where reprofuse
[[ -z $(man --warnings --pager=cat reprofuse 2>&1 >/tmp/manual) ]] || fail "the manual page has warnings"
grep -q "reprofuse" /tmp/manual

echo "== a C program"
install_packages gcc libc6-dev pkg-config
# shellcheck disable=SC2046  # flags are words
gcc -std=c99 -Wall -Wextra -Werror "$source" -o /tmp/generate $(pkg-config --cflags --libs reprofuse)
/tmp/generate /usr/share/reprofuse/models/arithmetic-7m

echo "== what Debian thinks of the package"
install_packages lintian
lintian --allow-root --fail-on error "$deb"

echo "== gone again"
dpkg --purge reprofuse
left=$(find /etc /lib /usr ! -path '*/lintian/*' \( -name '*reprofuse*' -o -name '*ReproFuse*' \))
[[ -z $left ]] || fail "left behind: $left"
