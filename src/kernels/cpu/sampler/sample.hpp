// The sampler on the CPU: vector passes over the logits, then selections by digits of the rank, shared over threads.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.hpp"
#include "kernels/sample.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::cpu {

// Bits: every result equals that of reference::sample. results.size() = rows.size().
void sample(std::span<const kernels::SampleRow> rows, std::int64_t vocabulary, Isa isa, ThreadPool& pool,
            std::span<kernels::SampleResult> results);

}  // namespace reprofuse::cpu
