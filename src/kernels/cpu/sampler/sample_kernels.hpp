// The passes over a row of logits that are worth a vector, per instruction set.
#pragma once

#include <cstddef>
#include <string_view>

#include "reprofuse/context.hpp"

namespace reprofuse::cpu {

struct LogitsSummary {
  float greatest;
  bool finite;  // all of them
};

struct SampleKernels {
  std::string_view target;  // compiled in: what really runs
  LogitsSummary (*summarize)(const float* logits, std::size_t count);
  // Bits: equal sampling::likelihood of every logit.
  void (*likelihoods)(const float* logits, std::size_t count, float greatest, float temperature, float* out);
};

const SampleKernels& sample_kernels(Isa isa);

const SampleKernels& sample_scalar();
const SampleKernels* sample_simd(Isa isa);  // null: not in this build

}  // namespace reprofuse::cpu
