#include "kernels/cpu/linear/panels.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

#include "base/check.hpp"
#include "base/math.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Large blocks start on a huge page and ask for more: streaming weights then misses the TLB 512 times less often. What
// does not fill a huge page stays on small ones, so that no memory is taken that holds no weights.
void* allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  void* memory = std::aligned_alloc(alignment, round_up(bytes, alignment));
  if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (alignment == kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

// The bits of one weight, or zero outside the matrix.
std::uint32_t weight_bits(const WeightView& weight, std::int64_t row, std::int64_t k) {
  if (row >= weight.n || k >= weight.k) return 0;
  return load_weight(weight.data, weight.dtype, row * weight.stride + k);
}

std::size_t panels_bytes(std::int64_t panels, std::int64_t words, std::string_view layer) {
  const auto bytes = checked_product(panels, words, kPanel, sizeof(std::uint32_t));
  require(bytes.has_value(), "linear '{}': {} panels of {} words are larger than any memory", layer, panels, words);
  return static_cast<std::size_t>(*bytes);
}

std::uint32_t exponent_mask(DType dtype) {
  return dtype == DType::kF32 ? 0x7f800000U : dtype == DType::kBF16 ? 0x7f80U : 0x7c00U;
}

// Names the first weight of the panel that is not finite.
void fail_non_finite(const WeightView& weight, const PanelColumns& columns, std::string_view layer) {
  const std::uint32_t mask = exponent_mask(weight.dtype);
  for (std::int64_t row = columns.column; row < columns.column + columns.columns; ++row)
    for (std::int64_t k = 0; k < weight.k; ++k) {
      const std::uint32_t bits = weight_bits(weight, row, k);
      if ((bits & mask) == mask)
        fail(ErrorCode::kNonFinite, "linear '{}' weight {} row {} column {}: {} bits {:#0{}x} are not finite", layer,
             columns.output, row, k, dtype_name(weight.dtype), bits, 2 + 2 * dtype_bytes(weight.dtype));
    }
  invariant(false, "a panel packed from finite weights was found not to be");
}

}  // namespace

void Panels::Free::operator()(void* memory) const {
  std::free(memory);
}

namespace {

// The bits as they are stored, and zeros outside the matrix.
bool pack_stored(const WeightView& weight, const PanelColumns& columns, std::uint32_t* words) {
  const std::uint32_t mask = exponent_mask(weight.dtype);
  const int terms = weight.dtype == DType::kF32 ? 1 : 2;
  bool finite = true;
  for (std::int64_t c = 0; c < kPanel; ++c) {
    const std::int64_t row = columns.column + c;
    std::uint32_t* word = words + c;
    for (std::int64_t k = 0; k < weight.k; k += terms, word += kPanel) {
      const std::uint32_t low = weight_bits(weight, row, k);
      const std::uint32_t high = terms == 2 ? weight_bits(weight, row, k + 1) : 0;
      finite = finite && (low & mask) != mask && (high & mask) != mask;
      *word = terms == 2 ? low | high << 16 : low;
    }
  }
  return finite;
}

PanelForm stored() {
  return {.terms_alignment = 2,
          .pack = [](const WeightView& weight, std::int64_t, const PanelColumns& columns, std::uint32_t* words) {
            return pack_stored(weight, columns, words);
          }};
}

}  // namespace

Panels::Panels(std::span<const WeightView> weights, std::string_view layer, ThreadPool& pool)
    : Panels(weights, stored(), weights[0].dtype == DType::kF32 ? 1 : 2, layer, pool) {}

Panels::Panels(std::span<const WeightView> weights, const PanelForm& form, std::string_view layer, ThreadPool& pool)
    : Panels(weights, form, 2, layer, pool) {}

Panels::Panels(std::span<const WeightView> weights, const PanelForm& form, int word_terms, std::string_view layer,
               ThreadPool& pool)
    : dtype_(weights[0].dtype), k_(weights[0].k), word_terms_(word_terms) {
  const std::int64_t words = word_terms_ == 1 ? k_ : round_up(k_, form.terms_alignment) / word_terms_;
  panel_bytes_ = panels_bytes(1, words, layer);
  const std::size_t bytes = panels_bytes(count(weights), words, layer);
  std::int64_t concatenated = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (std::int64_t n = 0; n < weights[i].n; n += kPanel)
      columns_.push_back({i, n, std::min<std::int64_t>(kPanel, weights[i].n - n), concatenated + n});
    concatenated += weights[i].n;
  }
  words_.reset(static_cast<std::uint32_t*>(allocate(bytes)));
  pack_all(weights, form, layer, pool);
}

std::int64_t Panels::count(std::span<const WeightView> weights) {
  std::int64_t panels = 0;
  for (const WeightView& weight : weights) panels += ceil_div<std::int64_t>(weight.n, kPanel);
  return panels;
}

void Panels::pack_all(std::span<const WeightView> weights, const PanelForm& form, std::string_view layer,
                      ThreadPool& pool) {
  const auto panels = static_cast<std::int64_t>(columns_.size());
  std::mutex mutex;
  std::int64_t first_bad = panels;  // in the order of the weights, not of the threads
  pool.parallel_for(panels, [&](std::int64_t panel, int) {
    const PanelColumns& columns = columns_[static_cast<std::size_t>(panel)];
    std::uint32_t* words = words_.get() + static_cast<std::size_t>(panel) * panel_bytes_ / sizeof(std::uint32_t);
    if (form.pack(weights[columns.output], panel, columns, words)) return;
    std::lock_guard lock(mutex);
    first_bad = std::min(first_bad, panel);
  });
  if (first_bad == panels) return;
  const PanelColumns& columns = columns_[static_cast<std::size_t>(first_bad)];
  fail_non_finite(weights[columns.output], columns, layer);
}

const std::uint32_t* Panels::at(std::int64_t panel, std::int64_t k) const {
  const std::size_t word = static_cast<std::size_t>(k / word_terms_) * kPanel;
  return words_.get() + static_cast<std::size_t>(panel) * panel_bytes_ / sizeof(std::uint32_t) + word;
}

namespace {

// As the bits of their type, which are ordered like the numbers.
struct LargestBits {
  std::uint32_t of[kPanel] = {};
};

LargestBits largest_halves(const std::uint32_t* words, std::int64_t pairs) {
  LargestBits low;
  LargestBits high;
  for (std::int64_t i = 0; i < pairs; ++i, words += kPanel)
    for (int c = 0; c < kPanel; ++c) {
      low.of[c] = std::max(low.of[c], words[c] & 0x7fffU);
      high.of[c] = std::max(high.of[c], words[c] & 0x7fff0000U);
    }
  for (int c = 0; c < kPanel; ++c) low.of[c] = std::max(low.of[c], high.of[c] >> 16);
  return low;
}

LargestBits largest_words(const std::uint32_t* words, std::int64_t terms) {
  LargestBits largest;
  for (std::int64_t i = 0; i < terms; ++i, words += kPanel)
    for (int c = 0; c < kPanel; ++c) largest.of[c] = std::max(largest.of[c], words[c] & 0x7fffffffU);
  return largest;
}

}  // namespace

LargestWeights largest_weights(const Panels& panels, std::int64_t panel) {
  const std::uint32_t* words = panels.at(panel, 0);
  const LargestBits bits = panels.dtype() == DType::kF32 ? largest_words(words, panels.k())
                                                         : largest_halves(words, ceil_div<std::int64_t>(panels.k(), 2));
  LargestWeights largest{};
  for (int c = 0; c < kPanel; ++c) largest.of[c] = widen(panels.dtype(), bits.of[c]);
  return largest;
}

}  // namespace reprofuse::cpu
