// The most fused multiply-adds the CPU does: the arithmetic floor of a linear layer.
#pragma once

#include "base/thread_pool.hpp"

namespace reprofuse::study {

// Fused multiply-adds of binary32 and nothing else, on all threads of the pool, in the widest registers the machine
// has, for about a millisecond. Returns how many operations they were, two each.
double run_fma_burst(ThreadPool& pool);

}  // namespace reprofuse::study
