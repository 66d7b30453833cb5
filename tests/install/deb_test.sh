#!/usr/bin/env bash
# Packs the build, looks at the package, and uses it where it was unpacked. deb_root_test.sh installs it.
# Usage: deb_test.sh BUILD_DIR CPACK C_COMPILER VERSION
set -euo pipefail
build=$1 cpack=$2 cc=$3 version=$4
here=$(cd "$(dirname "$0")" && pwd)

for tool in dpkg-deb dpkg-shlibdeps file pkg-config; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cpack" -G DEB -B "$work" --config "$build/CPackConfig.cmake" >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log"; exit 1; }
deb=$(echo "$work"/reprofuse_*.deb)
fail() {
  echo "$*"
  exit 1
}

echo "== what the package says"
dpkg-deb --info "$deb"
[[ $(dpkg-deb --field "$deb" Version) == "$version-1" ]] || fail "the version is not $version-1"
for library in libc6 libstdc++6; do
  [[ $(dpkg-deb --field "$deb" Depends) == *"$library ("* ]] || fail "it does not depend on $library"
done
[[ $(dpkg-deb --info "$deb" conffiles) == /etc/default/reprofuse ]] || fail "/etc/default/reprofuse is no configuration file"

echo "== what is in it"
dpkg-deb --contents "$deb" | awk '{print $6}' >"$work/files"
for file in etc/default/reprofuse lib/systemd/system/reprofuse{,@}.service usr/bin/reprofuse \
  usr/include/reprofuse/reprofuse.h usr/include/reprofuse/reprofuse.hpp usr/lib/libreprofuse.so usr/lib/cmake/ReproFuse/ReproFuseConfig.cmake \
  usr/lib/pkgconfig/reprofuse.pc usr/share/doc/reprofuse/{copyright,changelog.gz,changelog.Debian.gz} \
  usr/share/man/man1/reprofuse.1.gz usr/share/reprofuse/models/arithmetic-7m/model.safetensors; do
  grep -qxF "./$file" "$work/files" || fail "$file is not in the package"
done
if [[ -e $build/lib/libreprofuse_mpi.so ]]; then
  grep -qxF ./usr/lib/reprofuse/libreprofuse_mpi.so "$work/files" || fail "the module for MPI is not in the package"
fi
[[ $(dpkg-deb --field "$deb" Suggests) == *openmpi-bin* ]] || fail "it does not suggest openmpi-bin"
for field in Depends Recommends; do
  [[ $(dpkg-deb --field "$deb" $field) != *mpi* ]] || fail "MPI, which one rank does not need, is in its $field"
done
dpkg-deb --extract "$deb" "$work/root"
gunzip <"$work/root/usr/share/doc/reprofuse/changelog.gz" | grep -F "## [$version]" || fail "CHANGELOG.md does not know $version"
cd / # what is unpacked finds its parts by itself
usr=$work/root/usr
export LD_LIBRARY_PATH=$usr/lib

echo "== the tool and its manual page"
[[ $("$usr/bin/reprofuse" --version) == "reprofuse $version" ]] || fail "the tool is of another version"
"$usr/bin/reprofuse" generate --chat --prompt "What is 12 + 30?" | tee "$work/answer"
grep -q "Answer: 42" "$work/answer" || fail "the model does not know"
if [[ -e $usr/lib/reprofuse/libreprofuse_mpi.so ]] && command -v mpirun >/dev/null; then
  echo "== two ranks of it"
  "$usr/bin/reprofuse" generate --chat --prompt "What is 12 + 30?" --threads 1 --tensor-parallel 2 | cmp - "$work/answer" ||
    fail "two ranks answer otherwise"
fi
gunzip <"$usr/share/man/man1/reprofuse.1.gz" >"$work/reprofuse.1"
python3 "$here/man_page_check.py" "$work/reprofuse.1" "$usr/bin/reprofuse"
if python3 "$here/man_page_check.py" <(grep -v '^\.B stress$' "$work/reprofuse.1") "$usr/bin/reprofuse" 2>/dev/null; then
  fail "a manual page without a command passes"
fi

echo "== a C program"
export PKG_CONFIG_PATH=$usr/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs reprofuse)"
"$cc" -std=c99 -Wall -Wextra -Werror "$here/../../examples/generate.c" -o "$work/generate" "${flags[@]}"
"$work/generate" "$usr/share/reprofuse/models/arithmetic-7m"

if command -v systemd-analyze >/dev/null; then
  echo "== the units: of one server, and of a replica"
  for unit in reprofuse.service reprofuse@8001.service; do
    sed "s|=/usr/bin/|=$usr/bin/|; /^Documentation=man:/d" "$work/root/lib/systemd/system/${unit/8001/}" >"$work/$unit"
    systemd-analyze verify --man=no "$work/$unit"
  done
  sed 's|^ExecStart=.*|ExecStart=/nowhere/reprofuse|' "$work/reprofuse.service" >"$work/broken.service"
  if systemd-analyze verify --man=no "$work/broken.service" 2>/dev/null; then fail "a unit without its program passes"; fi
fi
