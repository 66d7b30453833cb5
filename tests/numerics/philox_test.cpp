#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "numerics/sampling.hpp"

namespace reprofuse {
namespace {

void expect_block(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1, PhiloxBlock expected) {
  const PhiloxBlock block = philox4x32(counter, key0, key1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(block.words[i], expected.words[i]) << i;
}

// kat_vectors of Random123, philox 4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  expect_block({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  expect_block({{~0U, ~0U, ~0U, ~0U}}, ~0U, ~0U, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect_block({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0,
               {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(Philox, SeedPositionAndDrawGoWhereTheyAreSaidToGo) {
  EXPECT_EQ(philox(0, 0, 0), 0xe169c58d6627e8d5ULL);
  EXPECT_EQ(philox(0x299f31d0a4093822ULL, 0x85a308d3243f6a88ULL, 0x0370734413198a2eULL), 0x94fdccebd16cfe09ULL);
}

TEST(Philox, IsAConstantExpression) {
  constexpr std::uint64_t kWord = philox(0, 0, 0);
  EXPECT_EQ(kWord, philox(0, 0, 0));
}

TEST(Philox, NeighboursShareNothing) {
  std::set<std::uint64_t> words;
  int ones = 0;
  constexpr int kEach = 16;
  for (std::uint64_t seed = 0; seed < kEach; ++seed)
    for (std::uint64_t position = 0; position < kEach; ++position)
      for (std::uint64_t draw = 0; draw < kEach; ++draw) {
        const std::uint64_t word = philox(seed, position, draw);
        words.insert(word);
        ones += std::popcount(word);
      }
  constexpr int kWords = kEach * kEach * kEach;
  EXPECT_EQ(words.size(), static_cast<std::size_t>(kWords));
  EXPECT_NEAR(ones, kWords * 32, 5 * 256);  // five deviations of sqrt(4096 * 64 / 4)
}

}  // namespace
}  // namespace reprofuse
