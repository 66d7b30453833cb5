#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/hash.hpp"

namespace reprofuse {
namespace {

TEST(Sha256Blocks, InstructionsGiveThePortableState) {
  const Sha256Blocks instructions = sha256_blocks_instructions();
  if (instructions == nullptr) GTEST_SKIP() << "this processor has no SHA-256 instructions";
  std::mt19937_64 random(1);
  for (std::size_t count = 0; count < 40; ++count) {
    std::vector<std::uint8_t> bytes(64 * count + 1);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    Sha256State portable;
    for (std::uint32_t& word : portable) word = static_cast<std::uint32_t>(random());
    Sha256State fast = portable;
    const Sha256State start = portable;
    sha256_blocks_portable(portable, bytes.data() + count % 2, count);  // aligned and not
    instructions(fast, bytes.data() + count % 2, count);
    EXPECT_EQ(fast, portable) << count << " blocks";
    EXPECT_EQ(start == portable, count == 0);
  }
}

}  // namespace
}  // namespace reprofuse
