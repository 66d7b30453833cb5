// Stages of shared memory between a producer, whose TMA copies fill them, and consumers, who release them: one full and
// one empty mbarrier for each. As in CUTLASS (PipelineState) and DeepGEMM (full_barriers, empty_barriers).
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/sm80.cuh"

namespace reprofuse::cuda::ptx {

// Barriers in shared memory that count arrivals and bytes (mbarrier), compute capability 9.0. Phases are counted by
// parity: a wait for parity 0 returns once the first phase is complete, one for parity 1 of a new barrier at once.
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

// Where a thread stands in a circular buffer of stages, and the parity of the phase that it waits for there. `by` is no
// more than `stages`.
struct PipelineState {
  int stage = 0;
  std::uint32_t phase = 0;

  __device__ void advance(int stages, int by = 1) {
    stage = stage + by < stages ? stage + by : stage + by - stages;
    phase ^= stage < by;
  }
  // The state of a consumer that has released so many stages.
  __device__ static PipelineState of_consumer(int released, int stages) {
    return {.stage = released % stages, .phase = static_cast<std::uint32_t>(released / stages) & 1};
  }
  // The state of a producer that has filled so many: it waits for what was released one turn before. In the first
  // turn every stage is empty, and need not be waited for.
  __device__ static PipelineState of_producer(int filled, int stages) {
    return {.stage = filled % stages, .phase = static_cast<std::uint32_t>(filled / stages - 1) & 1};
  }
  __device__ int previous_stage(int stages) const { return stage == 0 ? stages - 1 : stage - 1; }
};

// Stages that have full barriers alone: a pipeline behind them tells the producer when one of them is free.
struct FullBarriers {
  std::uint64_t* barriers;  // [stages]
  int stages;

  static constexpr int barrier_bytes(int stages) { return stages * static_cast<int>(sizeof(std::uint64_t)); }

  __device__ std::uint64_t* full_barrier(int stage) const { return barriers + stage; }

  // By one thread, as Pipeline::init().
  __device__ void init(int producers) const {
    for (int stage = 0; stage < stages; ++stage) mbarrier_init(full_barrier(stage), producers);
  }
  __device__ void commit(int stage) const { mbarrier_arrive(full_barrier(stage)); }
  __device__ void wait_full(const PipelineState& at) const { mbarrier_wait(full_barrier(at.stage), at.phase); }
};

// Several pipelines can share an array of barriers: each has some of its stages, from `first` on.
struct Pipeline {
  std::uint64_t* barriers;  // [stages] full: the bytes have come; then [stages] empty: the consumers are done
  int stages;               // of all pipelines that share the barriers
  int first = 0;

  static constexpr int barrier_bytes(int stages) { return 2 * stages * static_cast<int>(sizeof(std::uint64_t)); }

  __device__ std::uint64_t* full_barrier(int stage) const { return barriers + (first + stage); }
  __device__ std::uint64_t* empty_barrier(int stage) const { return barriers + stages + (first + stage); }

  // Of all pipelines that share the barriers. By one thread, followed by fence_mbarrier_init() and a barrier of the
  // CTA.
  __device__ void init(int producers, int consumers) const {
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(barriers + stage, producers);
      mbarrier_init(barriers + stages + stage, consumers);
    }
  }

  // Producers that write to the stage themselves: it is full once all of them have called this.
  __device__ void commit(int stage) const { mbarrier_arrive(full_barrier(stage)); }
  // Consumer: until the stage is full. It is given back by release().
  __device__ void wait_full(const PipelineState& at) const { mbarrier_wait(full_barrier(at.stage), at.phase); }
  __device__ void release(int stage) const { mbarrier_arrive(empty_barrier(stage)); }
  // Producer: until the consumers have given the stage back.
  __device__ void wait_empty(const PipelineState& at) const { mbarrier_wait(empty_barrier(at.stage), at.phase); }
};

}  // namespace reprofuse::cuda::ptx
