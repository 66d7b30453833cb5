// What this machine can run.
#pragma once

#include "reprofuse/context.hpp"

namespace reprofuse::cpu {

// Whether this build has kernels for the instruction set and this machine can run them.
bool is_supported(Isa isa);

// Whether this machine sums products of bytes in AVX-512.
bool machine_has_avx512_vnni();

}  // namespace reprofuse::cpu
