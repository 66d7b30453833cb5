// Products of digits by a warpgroup, summed by contracts int16-1 and exact-2: wgmma in panels of columns, of which one
// is multiplied while another is worked on.
#pragma once

#include "kernels/cuda/attention/integer/softmax_sm90a.cuh"
#include "kernels/cuda/ptx/wgmma_sm90a.cuh"

namespace reprofuse::cuda::integer_attention {

using ptx::kWarpgroupRows;
using Descriptor = ptx::SharedMemoryDescriptor;

// Digits of a left operand, in registers or in shared memory: that of 32 terms.
template <typename N, int kSteps>
struct DigitRegisters {
  const LeftWords<N, kSteps>& digits;
  __device__ const std::uint32_t* digit(int i, int step) const { return digits[i][step]; }
};

template <int kPlane>
struct DigitMemory {
  std::uint64_t descriptor;
  __device__ std::uint64_t digit(int i, int step) const {
    return descriptor + step * Descriptor::advance(2 * kCoreBytes) + i * Descriptor::advance(kPlane);
  }
};

// What leads from a right operand's digits to the next ones, to the next 32 terms, and to the next panel; in bytes.
struct RightStrides {
  int plane, step, panel;
};

// What a warpgroup multiplies its 64 rows by. A thread has half as many sums as there are columns.
struct ProductShape {
  int panels;   // of columns, whose sums are taken one after another
  int columns;  // of a panel
  int steps;    // of 32 terms
  RightStrides right;
  bool both_ahead = true;  // of three digits: while a panel is taken, both kinds of sums of the next are in flight
};

template <ProductShape kShape>
using PanelSums = int[kShape.columns / 2];

// sums = 256 * (high * high) + high * low + low * high, high products first, so that one set of registers is enough.
// `take(panel, value)` has the sums of a panel, value(i) as binary32, while the next panel is multiplied.
template <ProductShape kShape, typename Left, typename Take>
__device__ inline void multiply_two_digits(const Left& left, std::uint64_t right,
                                           PanelSums<kShape> (&sums)[kShape.panels], const Take& take) {
  constexpr int kPanels = kShape.panels, kColumns = kShape.columns, kSteps = kShape.steps;
  constexpr RightStrides kRight = kShape.right;
  const auto column = [&](int panel, int step, int plane) {
    return right + panel * Descriptor::advance(kRight.panel) + step * Descriptor::advance(kRight.step) +
           plane * Descriptor::advance(kRight.plane);
  };
  ptx::wgmma_fence();
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k32_s8<kColumns>(sums[panel], left.digit(0, step), column(panel, step, 0), step > 0);
    ptx::wgmma_commit_group();
  }
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
    ptx::wgmma_wait_group<kPanels - 1>();
    ptx::warpgroup_fence_operand(sums[panel]);
#pragma unroll
    for (int& sum : sums[panel]) sum <<= 8;
    ptx::warpgroup_fence_operand(sums[panel]);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      ptx::wgmma_m64k32_s8<kColumns>(sums[panel], left.digit(1, step), column(panel, step, 0), 1);
      ptx::wgmma_m64k32_s8<kColumns>(sums[panel], left.digit(0, step), column(panel, step, 1), 1);
    }
    ptx::wgmma_commit_group();
  }
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
    if (panel + 1 < kPanels)
      ptx::wgmma_wait_group<1>();
    else
      ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(sums[panel]);
    take(panel, [&](int i) { return __int2float_rn(sums[panel][i]); });
  }
}

// The leading sums are 256 (x0 w0) + x0 w1 + x1 w0, as above; the trailing ones 256 (x0 w2 + x1 w1 + x2 w0) + x1 w2 +
// x2 w1. One kind is shifted while the other is multiplied. While a panel is taken the next one is in flight, as far
// as there are registers: its leading sums, or both. One piece: both kinds stay in registers.
template <ProductShape kShape, typename Left, typename Take>
__device__ inline void multiply_three_digits(const Left& left, std::uint64_t right,
                                             PanelSums<kShape> (&leading)[kShape.panels], const Take& take) {
  constexpr int kPanels = kShape.panels, kColumns = kShape.columns, kSteps = kShape.steps;
  constexpr RightStrides kRight = kShape.right;
  constexpr bool kBothAhead = kShape.both_ahead;
  PanelSums<kShape> trailing[kPanels];
  const auto add = [&](PanelSums<kShape>& sums, int panel, int of_left, int of_right, bool first) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k32_s8<kColumns>(sums, left.digit(of_left, step),
                                     right + panel * Descriptor::advance(kRight.panel) +
                                         step * Descriptor::advance(kRight.step) +
                                         of_right * Descriptor::advance(kRight.plane),
                                     !first || step > 0);
  };
  const auto begin_leading = [&](int panel) {
    ptx::wgmma_fence();
    add(leading[panel], panel, 0, 0, true);
    ptx::wgmma_commit_group();
  };
  const auto begin_trailing = [&](int panel) {
    ptx::wgmma_fence();
    add(trailing[panel], panel, 0, 2, true);
    add(trailing[panel], panel, 1, 1, false);
    add(trailing[panel], panel, 2, 0, false);
    ptx::wgmma_commit_group();
  };
  const auto shift = [&](PanelSums<kShape>& sums) {
    ptx::warpgroup_fence_operand(sums);
#pragma unroll
    for (int& sum : sums) sum <<= 8;
    ptx::warpgroup_fence_operand(sums);
    ptx::wgmma_fence();
  };
  begin_leading(0);
  if (kBothAhead) begin_trailing(0);
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
    if (!kBothAhead) begin_trailing(panel);
    ptx::wgmma_wait_group<1>();
    shift(leading[panel]);
    add(leading[panel], panel, 0, 1, false);
    add(leading[panel], panel, 1, 0, false);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    shift(trailing[panel]);
    add(trailing[panel], panel, 1, 2, false);
    add(trailing[panel], panel, 2, 1, false);
    ptx::wgmma_commit_group();
    if (panel + 1 < kPanels) {
      begin_leading(panel + 1);
      if (kBothAhead) begin_trailing(panel + 1);
      ptx::wgmma_wait_group<kBothAhead ? 2 : 1>();
    } else {
      ptx::wgmma_wait_group<0>();
    }
    ptx::warpgroup_fence_operand(leading[panel]);
    ptx::warpgroup_fence_operand(trailing[panel]);
    take(panel, [&](int i) {
      return ThreeDigits::value_of(__int2float_rn(leading[panel][i]), __int2float_rn(trailing[panel][i]));
    });
  }
}

template <typename N, ProductShape kShape, typename Left, typename Take>
__device__ inline void multiply_digits(const Left& left, std::uint64_t right, PanelSums<kShape> (&sums)[kShape.panels],
                                       const Take& take) {
  if constexpr (N::kDigits == 2)
    multiply_two_digits<kShape>(left, right, sums, take);
  else
    multiply_three_digits<kShape>(left, right, sums, take);
}

}  // namespace reprofuse::cuda::integer_attention
