// The ablated layer's inner loops for every instruction set with a fused multiply-add, from one source through Highway.
// Lanes are independent outputs, so the register width cannot move a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "study/ablation/kernels/linear_cpu_simd.cpp"
#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "numerics/fma1.hpp"
#include "study/ablation/kernels/linear.hpp"

#if REPROFUSE_SIMD_TARGET
static_assert(HWY_NATIVE_FMA, "a multiply and an add would round twice");

HWY_BEFORE_NAMESPACE();
namespace reprofuse::ablation::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr int kLanes = HWY_LANES(float);
static_assert(kColumnStep % kLanes == 0);
constexpr int kVectors = kColumnStep / kLanes;
constexpr int kRows = 4;  // chains enough to hide the latency of a multiply-add on the targets there are

struct Fused {
  static HWY_INLINE Vector apply(Vector x, Vector w, Vector sum) { return hn::MulAdd(x, w, sum); }
};
struct TwoRoundings {
  static HWY_INLINE Vector apply(Vector x, Vector w, Vector sum) { return hn::Add(hn::Mul(x, w), sum); }
};

template <class Operation, int kBlockRows>
HWY_NOINLINE void add_products(const BlockCall& call, std::int64_t row, std::int64_t column) {
  Vector sums[kBlockRows][kVectors];
  float* to = call.sums + row * call.sums_stride + column;
  HWY_UNROLL(16)
  for (int r = 0; r < kBlockRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::LoadU(Floats(), to + r * call.sums_stride + v * kLanes);
  }
  const float* x = call.x + row * call.x_stride;
  const float* w = call.w + column;
  for (std::int64_t k = 0; k < call.terms; ++k, w += call.w_stride) {
    HWY_UNROLL(16)
    for (int r = 0; r < kBlockRows; ++r) {
      const Vector activation = hn::Set(Floats(), x[r * call.x_stride + k]);
      HWY_UNROLL(16)
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = Operation::apply(activation, hn::LoadU(Floats(), w + v * kLanes), sums[r][v]);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kBlockRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], Floats(), to + r * call.sums_stride + v * kLanes);
  }
}

template <class Operation>
void block(const BlockCall& call) {
  for (std::int64_t column = 0; column < call.columns; column += kColumnStep) {
    std::int64_t row = 0;
    for (; row + kRows <= call.rows; row += kRows) add_products<Operation, kRows>(call, row, column);
    for (; row < call.rows; ++row) add_products<Operation, 1>(call, row, column);
  }
}

constexpr CpuKernels kKernels = {.fma = block<Fused>, .multiply_then_add = block<TwoRoundings>};

}  // namespace reprofuse::ablation::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::ablation {

const CpuKernels* cpu_kernels_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kKernels);
}

}  // namespace reprofuse::ablation
#endif
