// Barriers in shared memory that count arrivals and bytes (mbarrier), compute capability 9.0. Phases are counted by
// parity: a wait for parity 0 returns once the first phase is complete, one for parity 1 of a new barrier at once.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/shared_address.cuh"

namespace reprofuse::cuda::ptx {

__device__ inline void mbarrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

// Makes initialised barriers known to the TMA and to the other CTAs of the cluster.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and lets the phase wait for that many bytes of copies besides.
__device__ inline void mbarrier_arrive_expect_tx(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// Whose writes can be read after a wait: those of this CTA, or those of every CTA of the cluster. What copies brought
// can be read in either case.
enum class Scope { kCta, kCluster };

template <Scope kScope = Scope::kCta>
__device__ inline void mbarrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
// The modifier is part of the instruction's text, so that the text is a macro. It is empty for the CTA: the default.
#define REPROFUSE_WAIT_LOOP(ACQUIRE)   \
  "{\n.reg .pred done;\n"              \
  "again:\n"                           \
  "mbarrier.try_wait.parity" ACQUIRE   \
  ".shared::cta.b64 done, [%0], %1;\n" \
  "@done bra ready;\n"                 \
  "bra again;\n"                       \
  "ready:\n}"
  if constexpr (kScope == Scope::kCta)
    asm volatile(REPROFUSE_WAIT_LOOP("")::"r"(shared_address(barrier)), "r"(parity) : "memory");
  else
    asm volatile(REPROFUSE_WAIT_LOOP(".acquire.cluster")::"r"(shared_address(barrier)), "r"(parity) : "memory");
#undef REPROFUSE_WAIT_LOOP
}

}  // namespace reprofuse::cuda::ptx
