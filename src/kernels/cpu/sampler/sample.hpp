// The sampler on the CPU: vector passes over the logits, then selections by digits of the key, shared over threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/thread_pool.hpp"
#include "kernels/op_calls.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::cpu {

// Bits: every result equals that of reference::sample. results.size() = rows.size().
void sample(std::span<const kernels::SampleRow> rows, std::int64_t vocabulary, Isa isa, ThreadPool& pool,
            std::span<kernels::SampleResult> results);

// The passes over a row of logits that are worth a vector, per instruction set.
struct LogitsSummary {
  float greatest;
  bool finite;  // all of them
};

struct SampleKernels {
  std::string_view target;  // compiled in: what really runs
  LogitsSummary (*summarize)(const float* logits, std::size_t count);
  // Bits: equal sampling::unnormalized_probability of every logit.
  void (*probabilities)(const float* logits, std::size_t count, float greatest, float temperature, float* out);
};

const SampleKernels& sample_kernels(Isa isa);

const SampleKernels& sample_scalar();
const SampleKernels* sample_simd(Isa isa);  // null: not in this build

}  // namespace reprofuse::cpu
