// The sampler's passes for every instruction set with a fused multiply-add: Highway compiles this file once per target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sampler/sample_simd.cpp"
#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/sampler/sample.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/exp-inl.hpp"
#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

LogitsSummary summarize_logits(const float* logits, std::size_t count) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> words;
  const auto exponent = hn::Set(words, 0x7f800000U);
  Vector greatest = hn::Set(d, logits[0]);
  auto highest = hn::Zero(words);  // exponent field, all ones where something is not finite
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Vector value = hn::LoadU(d, logits + i);
    greatest = hn::Max(greatest, value);
    highest = hn::Max(highest, hn::And(hn::BitCast(words, value), exponent));
  }
  for (; i < count; ++i) {
    const Vector value = hn::Set(d, logits[i]);
    greatest = hn::Max(greatest, value);
    highest = hn::Max(highest, hn::And(hn::BitCast(words, value), exponent));
  }
  return {hn::GetLane(hn::MaxOfLanes(d, greatest)), hn::AllFalse(words, hn::Eq(highest, exponent))};
}

void probabilities_of_logits(const float* logits, std::size_t count, float greatest, float temperature, float* out) {
  const Floats d;
  const auto vector_of = [&](Vector logit) {
    return exp_nonpositive_f32(d, hn::Div(hn::Sub(logit, hn::Set(d, greatest)), hn::Set(d, temperature)));
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(vector_of(hn::LoadU(d, logits + i)), d, out + i);
  for (; i < count; ++i) out[i] = hn::GetLane(vector_of(hn::Set(d, logits[i])));
}

constexpr SampleKernels kSample = {
    .target = kTarget, .summarize = summarize_logits, .probabilities = probabilities_of_logits};

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const SampleKernels* sample_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kSample);
}

}  // namespace reprofuse::cpu
#endif
