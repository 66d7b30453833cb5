// Norms, rotation and the SiLU gate for every instruction set with a fused multiply-add, from one source: Highway
// compiles this file once per target. Lanes are independent chains, so the register width cannot move a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/simd.cpp"
#include <algorithm>
#include <cfloat>
#include <limits>

#include "base/math.hpp"
#include "kernels/cpu/elementwise/elementwise.hpp"
#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/fma1.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/exp-inl.hpp"
#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

// Bits: equal reprofuse::silu in every lane.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu(D d, V x) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), exp_f32(d, hn::Neg(x))));
}

inline void silu_gate_row(const SiluGateRow& row) {
  for_each_vector(row.k, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(silu(d, hn::LoadU(d, row.gate + i)), hn::LoadU(d, row.up + i)), d, row.y + i);
  });
}

// Adds neighbours at the distance of half the chains, then of a quarter, down to one sum. Chains that no element
// reached are +0 and change nothing, so the tree may start at the power of two that holds `chains`.
HWY_INLINE float fold_halves(float* lanes, std::int64_t chains) {
  int half = fma1::kNormLanes / 2;
  while (half >= chains) half /= 2;
  for (; half >= kLanes; half /= 2)
    for (int j = 0; j < half; j += kLanes)
      hn::Store(hn::Add(hn::Load(Floats(), lanes + j), hn::Load(Floats(), lanes + j + half)), Floats(), lanes + j);
  for (; half >= 1; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] = lanes[j] + lanes[j + half];
  return lanes[0];
}

// The chains of `kChains` vectors, from element `lane` of every 256 on.
template <int kChains>
HWY_INLINE void chain_squares(const float* x, std::int64_t whole, float* lanes) {
  Vector chains[kChains];
  HWY_UNROLL(8)
  for (int c = 0; c < kChains; ++c) chains[c] = hn::Zero(Floats());
  for (std::int64_t i = 0; i < whole; i += fma1::kNormLanes) {
    HWY_UNROLL(8)
    for (int c = 0; c < kChains; ++c) {
      const Vector value = hn::LoadU(Floats(), x + i + c * kLanes);
      chains[c] = hn::MulAdd(value, value, chains[c]);
    }
  }
  HWY_UNROLL(8)
  for (int c = 0; c < kChains; ++c) hn::Store(chains[c], Floats(), lanes + c * kLanes);
}

// Bits: equal reference::sum_of_squares.
HWY_NOINLINE float sum_of_squares(const float* x, std::int64_t k) {
  constexpr int kChains = 8;  // enough to hide the latency of a fused multiply-add
  constexpr int kStep = kChains * kLanes;
  static_assert(fma1::kNormLanes % kStep == 0);
  HWY_ALIGN float lanes[fma1::kNormLanes];
  const std::int64_t whole = k / fma1::kNormLanes * fma1::kNormLanes;
  for (int lane = 0; lane < fma1::kNormLanes; lane += kStep) chain_squares<kChains>(x + lane, whole, lanes + lane);
  for_each_vector(k - whole, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + whole + i);
    hn::StoreU(hn::MulAdd(value, value, hn::LoadU(d, lanes + i)), d, lanes + i);
  });
  return fold_halves(lanes, k);
}

HWY_NOINLINE bool norm_row(const NormRow& row) {
  if (row.delta != nullptr)
    for_each_vector(row.k, [&](auto d, std::int64_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, row.x + i), hn::LoadU(d, row.delta + i)), d, row.x + i);
    });
  const float sum = sum_of_squares(row.x, row.k);
  const float inverse = inverse_rms(sum, row.k, row.eps);
  for_each_vector(row.k, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, row.x + i), hn::Set(d, inverse));
    hn::StoreU(hn::Mul(hn::LoadU(d, row.weight + i), scaled), d, row.y + i);
  });
  return is_finite_bits(sum);
}

// Element d turns with element d + head_dim / 2.
HWY_NOINLINE void rotary_head(const RotaryHead& call) {
  const std::int64_t half = call.head_dim / 2;
  const bool norm = call.weight != nullptr;
  const float inverse = norm ? inverse_rms(sum_of_squares(call.head, call.head_dim), call.head_dim, call.eps) : 1.0F;
  const auto element = [&](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, call.head + i);
    if (!norm) return value;
    return hn::Mul(hn::LoadU(d, call.weight + i), hn::Mul(value, hn::Set(d, inverse)));
  };
  for_each_vector(half, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto a = element(d, i);
    const auto b = element(d, i + half);
    const auto cos = hn::LoadU(d, call.cos + i);
    const auto sin = hn::LoadU(d, call.sin + i);
    hn::StoreU(hn::MulSub(a, cos, hn::Mul(b, sin)), d, call.rotated + i);
    hn::StoreU(hn::MulAdd(b, cos, hn::Mul(a, sin)), d, call.rotated + half + i);
  });
}

constexpr ElementwiseKernels kElementwise = {
    .norm_row = norm_row, .rotary_head = rotary_head, .silu_gate_row = silu_gate_row};

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const ElementwiseKernels* elementwise_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kElementwise);
}

}  // namespace reprofuse::cpu
#endif
