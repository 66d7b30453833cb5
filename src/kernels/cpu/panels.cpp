#include "kernels/cpu/panels.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/cpu/linear_fma1_kernels.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::cpu {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Large blocks start on a huge page and ask for more: streaming weights then misses the TLB 512 times less often.
void* allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  void* memory = std::aligned_alloc(alignment, round_up(bytes, alignment));
  if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (alignment == kHugePage) madvise(memory, round_up(bytes, alignment), MADV_HUGEPAGE);
#endif
  return memory;
}

// The bits of one weight, or zero outside the matrix.
std::uint32_t weight_bits(const WeightView& weight, std::int64_t row, std::int64_t k) {
  if (row >= weight.n || k >= weight.k) return 0;
  return load_weight(weight.data, weight.dtype, row * weight.stride + k);
}

std::uint32_t exponent_mask(DType dtype) {
  return dtype == DType::kF32 ? 0x7f800000U : dtype == DType::kBF16 ? 0x7f80U : 0x7c00U;
}

[[noreturn]] void fail_non_finite(const WeightView& weight, std::size_t index, std::int64_t row,
                                  std::string_view layer) {
  const std::uint32_t mask = exponent_mask(weight.dtype);
  std::int64_t k = 0;
  while ((weight_bits(weight, row, k) & mask) != mask) ++k;
  fail(ErrorCode::kNonFinite, "linear '{}' weight {} row {} column {}: {} bits {:#0{}x} are not finite", layer, index,
       row, k, dtype_name(weight.dtype), weight_bits(weight, row, k), 2 + 2 * dtype_bytes(weight.dtype));
}

}  // namespace

void Panels::Free::operator()(void* memory) const {
  std::free(memory);
}

Panels::Panels(std::span<const WeightView> weights, std::string_view layer, ThreadPool& pool)
    : dtype_(weights[0].dtype), k_(weights[0].k) {
  const std::int64_t words = dtype_ == DType::kF32 ? k_ : ceil_div<std::int64_t>(k_, 2);
  panel_bytes_ = static_cast<std::size_t>(words) * kPanel * sizeof(std::uint32_t);
  std::int64_t concatenated = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (std::int64_t n = 0; n < weights[i].n; n += kPanel)
      columns_.push_back({i, n, std::min<std::int64_t>(kPanel, weights[i].n - n), concatenated + n});
    concatenated += weights[i].n;
  }
  words_.reset(static_cast<std::uint32_t*>(allocate(panel_bytes_ * columns_.size())));
  pool.parallel_for(static_cast<std::int64_t>(columns_.size()), [&](std::int64_t panel, int) {
    pack(weights[columns_[static_cast<std::size_t>(panel)].output], panel, layer);
  });
}

void Panels::pack(const WeightView& weight, std::int64_t panel, std::string_view layer) {
  const PanelColumns& columns = columns_[static_cast<std::size_t>(panel)];
  const std::uint32_t mask = exponent_mask(dtype_);
  const int terms = dtype_ == DType::kF32 ? 1 : 2;
  const std::size_t begin = static_cast<std::size_t>(panel) * panel_bytes_ / sizeof(std::uint32_t);
  for (std::int64_t c = 0; c < kPanel; ++c) {
    const std::int64_t row = columns.column + c;
    std::uint32_t* word = words_.get() + begin + c;
    bool finite = true;
    for (std::int64_t k = 0; k < k_; k += terms, word += kPanel) {
      const std::uint32_t low = weight_bits(weight, row, k);
      const std::uint32_t high = terms == 2 ? weight_bits(weight, row, k + 1) : 0;
      finite = finite && (low & mask) != mask && (high & mask) != mask;
      *word = terms == 2 ? low | high << 16 : low;
    }
    if (!finite) fail_non_finite(weight, columns.output, row, layer);
  }
}

const void* Panels::at(std::int64_t panel, std::int64_t k) const {
  const std::size_t word = static_cast<std::size_t>(dtype_ == DType::kF32 ? k : k / 2) * kPanel;
  return words_.get() + static_cast<std::size_t>(panel) * panel_bytes_ / sizeof(std::uint32_t) + word;
}

}  // namespace reprofuse::cpu
