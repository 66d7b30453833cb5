#!/usr/bin/env bash
# cmake/Cuda.cmake with an nvcc that only tells its version: one that is too old must be left out, with the reason.
# Usage: nvcc_version_test.sh CMAKE SOURCE
set -euo pipefail
cmake=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(Sample LANGUAGES NONE)
set(REPROFUSE_CUDA ON)
include($source/cmake/Cuda.cmake)
END

# status_with TEXT: the build's CUDA status when `nvcc --version` prints TEXT.
status_with() {
  printf '#!/bin/sh\necho "%s"\n' "$1" >"$folder/nvcc"
  chmod +x "$folder/nvcc"
  rm -rf "$folder/build"
  # With an nvcc of this kind that is new enough the configuration must fail: there is no compiler behind it.
  "$cmake" -G Ninja -S "$folder" -B "$folder/build" -DREPROFUSE_NVCC="$folder/nvcc" >"$folder/log" 2>&1 && configured=yes ||
    configured=no
  status=$(sed -n 's/^REPROFUSE_CUDA_STATUS:INTERNAL=//p' "$folder/build/CMakeCache.txt")
}

# expect STATUS CONFIGURED
expect() {
  [[ $status == "$1" && $configured == "$2" ]] && return 0
  printf '%s\n' "status '$status', configured: $configured; expected '$1', $2" >&2
  tail -n 20 "$folder/log" >&2
  exit 1
}

status_with "Cuda compilation tools, release 11.8, V11.8.89"
expect "OFF: $folder/nvcc is of CUDA 11.8, older than 12.8" yes
status_with "nothing that names a release"
expect "OFF: $folder/nvcc --version names no release" yes
status_with "Cuda compilation tools, release 12.10, V12.10.1"
expect "ON: $folder/nvcc of CUDA 12.10" no
echo passed
