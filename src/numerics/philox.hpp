// Philox4x32-10 (Salmon et al., SC 2011): random words as a function of a key and a counter, with no state to carry.
#pragma once

#include <cstdint>

#include "base/math.hpp"

namespace reprofuse {

struct PhiloxBlock {
  std::uint32_t words[4];
};

REPROFUSE_HOST_DEVICE constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53U, kMultiplier1 = 0xcd9e8d57U;
  constexpr std::uint32_t kWeyl0 = 0x9e3779b9U, kWeyl1 = 0xbb67ae85U;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter.words[0];
    const std::uint64_t product1 = kMultiplier1 * counter.words[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.words[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.words[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// A uniform 64-bit word: draw number `draw` of the token at `position` of a request with this seed.
REPROFUSE_HOST_DEVICE constexpr std::uint64_t philox(std::uint64_t seed, std::uint64_t position, std::uint64_t draw) {
  const PhiloxBlock block =
      philox4x32({{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                   static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32)}},
                 static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  return std::uint64_t{block.words[1]} << 32 | block.words[0];
}

}  // namespace reprofuse
