#include "kernels/cpu/linear/exact1/row_exponents.hpp"

#include <algorithm>

#include "base/math.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::cpu {
namespace {

// The largest magnitude of a column, as the bits of its type: they are ordered like the numbers.
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

RowExponents::RowExponents(const Panels& panels, ThreadPool& pool) : bytes_(panels.columns().size() * kPanel) {
  const DType dtype = panels.dtype();
  pool.parallel_for(static_cast<std::int64_t>(panels.columns().size()), [&](std::int64_t panel, int) {
    const auto* words = static_cast<const std::uint32_t*>(panels.at(panel, 0));
    const LargestBits largest = dtype == DType::kF32 ? largest_words(words, panels.k())
                                                     : largest_halves(words, ceil_div<std::int64_t>(panels.k(), 2));
    for (int c = 0; c < kPanel; ++c) {
      const int exponent = exact1::weight_exponent(float_bits(widen(dtype, largest.of[c])));
      bytes_[static_cast<std::size_t>(panel * kPanel + c)] =
          static_cast<std::uint8_t>(exponent - exact1::kLeastExponent);
    }
  });
}

}  // namespace reprofuse::cpu
