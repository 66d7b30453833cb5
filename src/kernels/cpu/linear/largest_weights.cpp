#include "kernels/cpu/linear/largest_weights.hpp"

#include <algorithm>

#include "base/math.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::cpu {
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
  const auto* words = static_cast<const std::uint32_t*>(panels.at(panel, 0));
  const LargestBits bits = panels.dtype() == DType::kF32 ? largest_words(words, panels.k())
                                                         : largest_halves(words, ceil_div<std::int64_t>(panels.k(), 2));
  LargestWeights largest{};
  for (int c = 0; c < kPanel; ++c) largest.of[c] = widen(panels.dtype(), bits.of[c]);
  return largest;
}

}  // namespace reprofuse::cpu
