#include <algorithm>

#include "kernels/cpu/sampler/sample.hpp"
#include "numerics/sampling.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::cpu {
namespace {

LogitsSummary summarize(const float* logits, std::size_t count) {
  LogitsSummary summary{logits[0], true};
  for (std::size_t i = 0; i < count; ++i) {
    summary.greatest = std::max(summary.greatest, logits[i]);
    summary.finite = summary.finite && is_finite_bits(logits[i]);
  }
  return summary;
}

void likelihoods(const float* logits, std::size_t count, float greatest, float temperature, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = sampling::likelihood(logits[i], greatest, temperature);
}

constexpr SampleKernels kSample = {.target = "scalar", .summarize = summarize, .likelihoods = likelihoods};

}  // namespace

const SampleKernels& sample_scalar() {
  return kSample;
}

const SampleKernels& sample_kernels(Isa isa) {
  const SampleKernels* simd = sample_simd(isa);
  return simd != nullptr ? *simd : sample_scalar();
}

}  // namespace reprofuse::cpu
