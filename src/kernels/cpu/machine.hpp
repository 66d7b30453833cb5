// What this machine can run, and what kernels run on it.
#pragma once

#include "base/thread_pool.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::cpu {

// What kernels run on: vectors and threads.
struct CpuDevice {
  Isa isa;
  ThreadPool* pool;
};

// Whether this build has kernels for the instruction set and this machine can run them.
bool is_supported(Isa isa);

// Whether this machine sums products of bytes in AVX-512.
bool machine_has_avx512_vnni();

// Whether its vector additions have ports beside those of products, as on AMD's processors; on Intel's they share them.
bool machine_adds_beside_products();

// Whether this machine multiplies tiles of bytes, and the system lets this process: it is asked once.
bool machine_has_amx_int8();

// Whether this machine sums products of bytes in NEON.
bool machine_has_neon_dot();

}  // namespace reprofuse::cpu
