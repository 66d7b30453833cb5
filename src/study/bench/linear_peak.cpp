#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "study/bench/linear.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace reprofuse::study {
namespace {

// Chains do not wait for each other; 16 are more than latency times units of any core there is.
constexpr int kChains = 16;
constexpr std::int64_t kSteps = std::int64_t{1} << 15;
constexpr float kLeft = 0.001F, kRight = 0.001F;  // what a step multiplies

struct Work {
  float (*run)(std::int64_t steps);  // the result only keeps the arithmetic alive
  int lanes;
};

float one_lane(std::int64_t steps) {
  float chains[kChains];
  std::fill(std::begin(chains), std::end(chains), 1.0F);
  for (std::int64_t i = 0; i < steps; ++i)
    for (float& chain : chains) chain = std::fma(kLeft, kRight, chain);
  float sum = 0.0F;
  for (const float chain : chains) sum += chain;
  return sum;
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] float avx512(std::int64_t steps) {
  const __m512 left = _mm512_set1_ps(kLeft), right = _mm512_set1_ps(kRight);
  __m512 chains[kChains];
  for (__m512& chain : chains) chain = _mm512_set1_ps(1.0F);
  for (std::int64_t i = 0; i < steps; ++i)
    for (__m512& chain : chains) chain = _mm512_fmadd_ps(left, right, chain);
  __m512 sum = chains[0];
  for (const __m512& chain : chains) sum = _mm512_add_ps(sum, chain);
  return _mm512_cvtss_f32(sum);
}

[[gnu::target("avx2,fma")]] float avx2(std::int64_t steps) {
  constexpr int kAvx2Chains = 12;  // of 16 registers; two hold the constants
  const __m256 left = _mm256_set1_ps(kLeft), right = _mm256_set1_ps(kRight);
  __m256 chains[kAvx2Chains];
  for (__m256& chain : chains) chain = _mm256_set1_ps(1.0F);
  for (std::int64_t i = 0; i < steps * kChains / kAvx2Chains; ++i)
    for (__m256& chain : chains) chain = _mm256_fmadd_ps(left, right, chain);
  __m256 sum = chains[0];
  for (const __m256& chain : chains) sum = _mm256_add_ps(sum, chain);
  return _mm256_cvtss_f32(sum);
}
#elif defined(__aarch64__)
float neon(std::int64_t steps) {
  const float32x4_t left = vdupq_n_f32(kLeft), right = vdupq_n_f32(kRight);
  float32x4_t chains[kChains];
  for (float32x4_t& chain : chains) chain = vdupq_n_f32(1.0F);
  for (std::int64_t i = 0; i < steps; ++i)
    for (float32x4_t& chain : chains) chain = vfmaq_f32(chain, left, right);
  float32x4_t sum = chains[0];
  for (const float32x4_t& chain : chains) sum = vaddq_f32(sum, chain);
  return vgetq_lane_f32(sum, 0);
}
#endif

Work widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {avx512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {avx2, 8};
#elif defined(__aarch64__)
  return {neon, 4};
#endif
  return {one_lane, 1};
}

}  // namespace

double run_fma_burst(ThreadPool& pool) {
  const Work work = widest();
  pool.parallel_for(pool.threads(), [&](std::int64_t, int) {
    const float kept = work.run(kSteps);
    asm volatile("" : : "m"(kept));  // the compiler must not drop the arithmetic
  });
  return 2.0 * work.lanes * kChains * static_cast<double>(kSteps) * pool.threads();
}

}  // namespace reprofuse::study
