#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "numerics/float_ops.hpp"
#include "study/ablation/kernels/linear.hpp"

namespace reprofuse::ablation {
namespace {

// The nearest value of 11 significant bits, ties away from zero, as the device's conversion has it.
float round_tf32(float value) {
  constexpr std::uint32_t kHalf = 0x1000, kKept = ~std::uint32_t{0x1fff};
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + kHalf) & kKept);
}

float round_to_bf16(float value) {
  return widen_bf16(round_bf16(value));
}

template <typename Operation>
void scalar_block(const BlockCall& call, Operation operation) {
  for (std::int64_t row = 0; row < call.rows; ++row) {
    float* sums = call.sums + row * call.sums_stride;
    for (std::int64_t k = 0; k < call.terms; ++k) {
      const float x = call.x[row * call.x_stride + k];
      const float* w = call.w + k * call.w_stride;
      for (std::int64_t column = 0; column < call.columns; ++column) operation(x, w[column], sums[column]);
    }
  }
}

void fma_block(const BlockCall& call) {
  scalar_block(call, [](float x, float w, float& sum) { sum = std::fma(x, w, sum); });
}

void multiply_then_add_block(const BlockCall& call) {
  scalar_block(call, [](float x, float w, float& sum) { sum = x * w + sum; });
}

CpuKernels kernels_for(Isa isa) {
  const CpuKernels* simd = cpu_kernels_simd(isa);
  return simd != nullptr ? *simd : cpu_kernels_scalar();
}

}  // namespace

const CpuKernels& cpu_kernels_scalar() {
  static constexpr CpuKernels kKernels = {.fma = fma_block, .multiply_then_add = multiply_then_add_block};
  return kKernels;
}

// One set of products of a term: x as it is, or one of its rounded parts.
struct CpuLinear::Pass {
  BlockKernel kernel;
  ConstMatrix x;
  std::vector<float> owned;  // what x points to, where it is a copy
};

CpuLinear::CpuLinear(const WeightView& weight, Isa isa, ThreadPool& pool)
    : kernels_(kernels_for(isa)),
      pool_(pool),
      n_(weight.n),
      k_(weight.k),
      stride_(round_up<std::int64_t>(weight.n, kColumnStep)),
      w_(static_cast<std::size_t>(k_ * stride_)) {
  require(weight.dtype == DType::kBF16, "ablation: the weights are {}; every switch keeps bf16 ones exact, no others",
          dtype_name(weight.dtype));
  pool_.parallel_for(stride_ / kColumnStep, [&](std::int64_t panel, int) {
    const std::int64_t end = std::min(n_, (panel + 1) * kColumnStep);
    for (std::int64_t n = panel * kColumnStep; n < end; ++n)
      for (std::int64_t k = 0; k < k_; ++k)
        w_[static_cast<std::size_t>(k * stride_ + n)] =
            widen(weight.dtype, load_weight(weight.data, weight.dtype, n * weight.stride + k));
  });
}

// BF16 weights are exact in every format here, so the products of their low parts, all zero, need not be formed.
std::vector<CpuLinear::Pass> CpuLinear::passes_of(Arithmetic arithmetic, ConstMatrix x) const {
  std::vector<Pass> passes;
  const auto add_rounded = [&](auto round) {
    std::vector<float> values(static_cast<std::size_t>(x.rows * k_));
    for (std::int64_t row = 0; row < x.rows; ++row)
      for (std::int64_t k = 0; k < k_; ++k)
        values[static_cast<std::size_t>(row * k_ + k)] = round(x.data[row * x.stride + k]);
    const float* data = values.data();
    passes.push_back({kernels_.fma, {data, x.rows, k_, k_}, std::move(values)});
  };
  switch (arithmetic) {
    case Arithmetic::kIeeeFma: passes.push_back({kernels_.fma, x, {}}); break;
    case Arithmetic::kMultiplyThenAdd: passes.push_back({kernels_.multiply_then_add, x, {}}); break;
    case Arithmetic::kTf32: add_rounded(round_tf32); break;
    case Arithmetic::kTf32x3:
      add_rounded([](float value) { return round_tf32(value - round_tf32(value)); });
      add_rounded(round_tf32);
      break;
    case Arithmetic::kBf16: add_rounded(round_to_bf16); break;
  }
  return passes;
}

// The sums of one tile over one split of K, block by block along k as a tiled GEMM goes: the order is the same for all.
std::vector<float> CpuLinear::sum_region(const std::vector<Pass>& passes, const Region& region, int tile_k) const {
  std::vector<float> sums(static_cast<std::size_t>(region.rows * region.columns));
  for (std::int64_t k = region.k_begin; k < region.k_end; k += tile_k)
    for (const Pass& pass : passes)
      pass.kernel({.x = pass.x.data + region.row * pass.x.stride + k,
                   .x_stride = pass.x.stride,
                   .w = w_.data() + k * stride_ + region.column,
                   .w_stride = stride_,
                   .sums = sums.data(),
                   .sums_stride = region.columns,
                   .rows = region.rows,
                   .columns = region.columns,
                   .terms = std::min<std::int64_t>(tile_k, region.k_end - k)});
  return sums;
}

void CpuLinear::run(const Variant& variant, ConstMatrix x, Matrix y) const {
  require(variant.tile.m > 0 && variant.tile.k > 0 && variant.tile.n > 0 && variant.tile.n % kColumnStep == 0,
          "ablation: a tile of {} x {} x {}; its columns come in multiples of {}", variant.tile.m, variant.tile.n,
          variant.tile.k, kColumnStep);
  const std::vector<Pass> passes = passes_of(variant.arithmetic, x);
  const Splits splits = splits_of(variant, k_);
  const bool atomic = variant.merge == Merge::kAtomic;
  std::vector<float> partials(static_cast<std::size_t>(atomic ? 0 : splits.count * x.rows * stride_));
  if (atomic)
    for (std::int64_t row = 0; row < y.rows; ++row) std::fill_n(y.data + row * y.stride, n_, 0.0F);
  const std::int64_t column_tiles = ceil_div<std::int64_t>(stride_, variant.tile.n);
  const std::int64_t tiles = ceil_div<std::int64_t>(x.rows, variant.tile.m) * column_tiles;
  // Splits of one tile follow each other, so that threads that race have something to race for.
  pool_.parallel_for(tiles * splits.count, [&](std::int64_t task, int) {
    const std::int64_t tile = task / splits.count, split = task % splits.count;
    Region region{};
    region.row = tile / column_tiles * variant.tile.m;
    region.rows = std::min<std::int64_t>(variant.tile.m, x.rows - region.row);
    region.column = tile % column_tiles * variant.tile.n;
    region.columns = std::min<std::int64_t>(variant.tile.n, stride_ - region.column);
    region.k_begin = split * splits.length;
    region.k_end = std::min(k_, region.k_begin + splits.length);
    const std::vector<float> sums = sum_region(passes, region, variant.tile.k);
    if (atomic)
      add_atomically(sums, region, y);
    else
      for (std::int64_t row = 0; row < region.rows; ++row)
        std::copy_n(sums.data() + row * region.columns, region.columns,
                    partials.data() + (split * x.rows + region.row + row) * stride_ + region.column);
  });
  if (!atomic) merge_ascending(partials, splits.count, y);
}

void CpuLinear::add_atomically(const std::vector<float>& sums, const Region& region, Matrix y) const {
  const std::int64_t columns = std::min(region.columns, n_ - region.column);
  for (std::int64_t row = 0; row < region.rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      std::atomic_ref<float>(y.data[(region.row + row) * y.stride + region.column + column])
          .fetch_add(sums[static_cast<std::size_t>(row * region.columns + column)], std::memory_order_relaxed);
}

void CpuLinear::merge_ascending(const std::vector<float>& partials, std::int64_t count, Matrix y) const {
  pool_.parallel_for(y.rows, [&](std::int64_t row, int) {
    float* totals = y.data + row * y.stride;
    std::copy_n(partials.data() + row * stride_, n_, totals);
    for (std::int64_t split = 1; split < count; ++split) {
      const float* sums = partials.data() + (split * y.rows + row) * stride_;
      for (std::int64_t column = 0; column < n_; ++column) totals[column] = totals[column] + sums[column];
    }
  });
}

void CpuLinear::run_in_lanes(int lanes, ConstMatrix x, Matrix y) const {
  require(lanes > 0 && std::has_single_bit(static_cast<unsigned>(lanes)), "ablation: {} lanes are no power of two",
          lanes);
  pool_.parallel_for(x.rows, [&](std::int64_t row, int) {
    std::vector<float> chains(static_cast<std::size_t>(lanes));
    for (std::int64_t column = 0; column < n_; ++column) {
      std::fill(chains.begin(), chains.end(), 0.0F);
      for (std::int64_t k = 0; k < k_; ++k) {
        float& chain = chains[static_cast<std::size_t>(k % lanes)];
        chain = std::fma(x.data[row * x.stride + k], w_[static_cast<std::size_t>(k * stride_ + column)], chain);
      }
      for (std::size_t half = chains.size() / 2; half > 0; half /= 2)
        for (std::size_t lane = 0; lane < half; ++lane) chains[lane] = chains[lane] + chains[lane + half];
      y.data[row * y.stride + column] = chains[0];
    }
  });
}

}  // namespace reprofuse::ablation
