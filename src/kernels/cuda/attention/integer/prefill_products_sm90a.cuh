// Products of digits by a warpgroup, summed by contracts int16-1 and exact-2: wgmma in parts of the columns, of which
// one is multiplied while another is worked on.
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

// What leads from a right operand's digits to the next ones, to the next 32 terms, and to the next part of the
// columns; in bytes.
struct RightStrides {
  int plane, step, part;
};

// What a warpgroup multiplies its 64 rows by. A thread has half as many sums as there are columns.
struct ProductShape {
  int parts;    // of the columns, whose sums are taken one after another
  int columns;  // of a part
  int steps;    // of 32 terms
  RightStrides right;
  bool both_ahead = true;  // of three digits: while a part is taken, both kinds of sums of the next are on their way
};

template <ProductShape kShape>
using PartSums = int[kShape.columns / 2];

// sums = 256 * (high * high) + high * low + low * high, high products first, so that one set of registers is enough.
// `take(part, value)` has the sums of a part of the columns, value(i) as binary32, while the next part is multiplied.
template <ProductShape kShape, typename Left, typename Take>
__device__ inline void multiply_two_digits(const Left& left, std::uint64_t right,
                                           PartSums<kShape> (&sums)[kShape.parts], const Take& take) {
  constexpr int kParts = kShape.parts, kColumns = kShape.columns, kSteps = kShape.steps;
  constexpr RightStrides kRight = kShape.right;
  const auto column = [&](int part, int step, int plane) {
    return right + part * Descriptor::advance(kRight.part) + step * Descriptor::advance(kRight.step) +
           plane * Descriptor::advance(kRight.plane);
  };
  ptx::wgmma_fence();
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k32_s8<kColumns>(sums[part], left.digit(0, step), column(part, step, 0), step > 0);
    ptx::wgmma_commit_group();
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    ptx::wgmma_wait_group<kParts - 1>();
    ptx::wgmma_settled(sums[part]);
#pragma unroll
    for (int& sum : sums[part]) sum <<= 8;
    ptx::wgmma_settled(sums[part]);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      ptx::wgmma_m64k32_s8<kColumns>(sums[part], left.digit(1, step), column(part, step, 0), 1);
      ptx::wgmma_m64k32_s8<kColumns>(sums[part], left.digit(0, step), column(part, step, 1), 1);
    }
    ptx::wgmma_commit_group();
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    if (part + 1 < kParts)
      ptx::wgmma_wait_group<1>();
    else
      ptx::wgmma_wait_group<0>();
    ptx::wgmma_settled(sums[part]);
    take(part, [&](int i) { return __int2float_rn(sums[part][i]); });
  }
}

// The leading sums are 256 (x0 w0) + x0 w1 + x1 w0, as above; the trailing ones 256 (x0 w2 + x1 w1 + x2 w0) + x1 w2 +
// x2 w1. One kind is shifted while the other is multiplied. While a part is taken the next one is on its way, as far as
// there are registers: its leading sums, or both.
template <ProductShape kShape, typename Left, typename Take>
__device__ inline void multiply_three_digits(const Left& left, std::uint64_t right,
                                             PartSums<kShape> (&leading)[kShape.parts], const Take& take) {
  constexpr int kParts = kShape.parts, kColumns = kShape.columns, kSteps = kShape.steps;
  constexpr RightStrides kRight = kShape.right;
  constexpr bool kBothAhead = kShape.both_ahead;
  PartSums<kShape> trailing[kParts];
  const auto add = [&](PartSums<kShape>& sums, int part, int of_left, int of_right, bool first) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k32_s8<kColumns>(sums, left.digit(of_left, step),
                                     right + part * Descriptor::advance(kRight.part) +
                                         step * Descriptor::advance(kRight.step) +
                                         of_right * Descriptor::advance(kRight.plane),
                                     !first || step > 0);
  };
  const auto begin_leading = [&](int part) {
    ptx::wgmma_fence();
    add(leading[part], part, 0, 0, true);
    ptx::wgmma_commit_group();
  };
  const auto begin_trailing = [&](int part) {
    ptx::wgmma_fence();
    add(trailing[part], part, 0, 2, true);
    add(trailing[part], part, 1, 1, false);
    add(trailing[part], part, 2, 0, false);
    ptx::wgmma_commit_group();
  };
  const auto shift = [&](PartSums<kShape>& sums) {
    ptx::wgmma_settled(sums);
#pragma unroll
    for (int& sum : sums) sum <<= 8;
    ptx::wgmma_settled(sums);
    ptx::wgmma_fence();
  };
  begin_leading(0);
  if (kBothAhead) begin_trailing(0);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    if (!kBothAhead) begin_trailing(part);
    ptx::wgmma_wait_group<1>();
    shift(leading[part]);
    add(leading[part], part, 0, 1, false);
    add(leading[part], part, 1, 0, false);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    shift(trailing[part]);
    add(trailing[part], part, 1, 2, false);
    add(trailing[part], part, 2, 1, false);
    ptx::wgmma_commit_group();
    if (part + 1 < kParts) {
      begin_leading(part + 1);
      if (kBothAhead) begin_trailing(part + 1);
      ptx::wgmma_wait_group<kBothAhead ? 2 : 1>();
    } else {
      ptx::wgmma_wait_group<0>();
    }
    ptx::wgmma_settled(leading[part]);
    ptx::wgmma_settled(trailing[part]);
    take(part, [&](int i) {
      return ThreeDigits::value_of(__int2float_rn(leading[part][i]), __int2float_rn(trailing[part][i]));
    });
  }
}

template <typename N, ProductShape kShape, typename Left, typename Take>
__device__ inline void multiply_digits(const Left& left, std::uint64_t right, PartSums<kShape> (&sums)[kShape.parts],
                                       const Take& take) {
  if constexpr (N::kDigits == 2)
    multiply_two_digits<kShape>(left, right, sums, take);
  else
    multiply_three_digits<kShape>(left, right, sums, take);
}

}  // namespace reprofuse::cuda::integer_attention
