#!/usr/bin/env bash
# A bare Debian 12 root, to try what a new machine would do. Debian's mirror, npm's registry and proxies are those of the
# running system. Packages are kept in build-bare/, so that a second root takes seconds.
#   tools/bare.sh make ROOT             a fresh root, with nothing but what debootstrap calls minimal
#   tools/bare.sh copy ROOT             the files of this checkout that git tracks, as /reprofuse in it
#   tools/bare.sh run ROOT COMMAND...   runs a command in its /reprofuse
#   tools/bare.sh package ROOT FRESH    packs the build in ROOT, and tests the package in another root, FRESH
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh

CACHE=$PWD/build-bare
SUITE=bookworm

# Lines of sources.list for SUITE, as the running system's apt has them: URI, suite and component.
debian_sources() {
  # shellcheck disable=SC2016  # apt expands them
  apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    grep -E " $SUITE(-updates|-security)? main$" | sort -u
}

make_root() {
  local root=$1 sources
  sources=$(debian_sources) || die "apt's sources on this machine name no Debian 12 ($SUITE) to make a root of"
  if [[ ! -f $CACHE/root.tar ]]; then
    local work=$CACHE/debootstrap
    rm -rf "$work"
    debootstrap --variant=minbase "$SUITE" "$work" "$(awk -v suite="$SUITE" '$2 == suite {print $1; exit}' <<<"$sources")"
    tar -C "$work" -cf "$CACHE/root.tar.new" .
    mv "$CACHE/root.tar.new" "$CACHE/root.tar"
    rm -rf "$work"
  fi
  rm -rf "$root"
  mkdir -p "$root"
  tar -C "$root" -xf "$CACHE/root.tar"
  # shellcheck disable=SC2001
  sed 's/^/deb /' <<<"$sources" >"$root/etc/apt/sources.list"
  { apt-config dump --no-empty | grep -iE '^Acquire::https?::' || true; } >"$root/etc/apt/apt.conf.d/80running-system"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}

copy_files() {
  mkdir -p "$1/reprofuse"
  git ls-files -z | tar -c --null --files-from=- | tar -x --no-same-owner --touch -C "$1/reprofuse"
}

# Variables that lead to the network from here, for a process that inherits no others.
network_environment() {
  local root=$1 name registry
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [[ -z ${!name-} ]] || printf '%s=%s\n' "$name" "${!name}"
  done
  if registry=$(npm config get registry 2>/dev/null); then printf 'npm_config_registry=%s\n' "$registry"; fi
  if [[ -f ${NODE_EXTRA_CA_CERTS-} ]]; then
    install -D -m 644 "$NODE_EXTRA_CA_CERTS" "$root/etc/ssl/running-system.pem"
    echo "NODE_EXTRA_CA_CERTS=/etc/ssl/running-system.pem"
  fi
}

# In namespaces of its own: when the command ends, its processes and mounts are gone.
run_inside() {
  local root=$1 variables
  shift
  mapfile -t variables < <(network_environment "$root")
  mkdir -p "$CACHE/apt/partial" "$CACHE/npm" "$root/root/.npm" "$root/reprofuse"
  # shellcheck disable=SC2016  # expanded inside
  unshare --mount --pid --fork --kill-child bash -c '
    set -euo pipefail
    root=$1 cache=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount --bind "$cache/apt" "$root/var/cache/apt/archives"
    mount --bind "$cache/npm" "$root/root/.npm"
    exec chroot "$root" "$@"' bash "$root" "$CACHE" \
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb "${variables[@]}" \
    bash -c 'cd /reprofuse && exec "$@"' bash "$@"
}

test_package() {
  local root=$1 fresh=$2
  rm -f "$root"/reprofuse/build/*.deb
  run_inside "$root" cmake --build build --target package
  make_root "$fresh"
  mkdir -p "$fresh/reprofuse"
  cp "$root"/reprofuse/build/*.deb tests/install/deb_root_test.sh examples/generate.c "$fresh/reprofuse/"
  run_inside "$fresh" bash -c './deb_root_test.sh ./*.deb generate.c'
}

[[ $(id -u) -eq 0 ]] || die "a root for chroot can only be made and entered by root"
command=${1-} root=${2-}
[[ -n $root ]] || die "usage: tools/bare.sh make|copy|run|package ROOT ..."
mkdir -p "$(dirname "$root")"
root=$(realpath -m "$root")
shift 2
case $command in
  make) make_root "$root" ;;
  copy) copy_files "$root" ;;
  run) run_inside "$root" "$@" ;;
  package) test_package "$root" "$(realpath -m "$1")" ;;
  *) die "tools/bare.sh has no command '$command'" ;;
esac
