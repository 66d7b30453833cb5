// Attention by contract int16-1 on the CPU: every instruction set gives the reference's bits, in pages and in results,
// however rows, keys and pages are cut; and other numbers than the contract's give other bits.
#include <cmath>

#include "ops/attention_int16_case.hpp"

namespace reprofuse {
namespace {

void expect_int16_bits(Int16Case& data, int threads) {
  Rows expected = data.expected();
  on_every_isa(threads, [&](const kernels::CpuTarget& target) {
    for (const bool workspace : {false, true}) {
      Rows out = data.empty_result();
      kernels::AttentionCall call = data.call(out);
      std::vector<std::byte> memory(cpu::attention_int16_workspace_bytes(call));
      call.workspace = workspace ? memory.data() : nullptr;
      EXPECT_FALSE(cpu::attention_int16(target, call));
      ASSERT_TRUE(same_bits(out, expected)) << "workspace " << workspace;
    }
  });
}

TEST(AttentionInt16Cpu, EveryIsaStoresKeysAndValuesAsTheReference) {
  for (const std::int32_t head_dim : {2, 10, 64, 96, 128}) {
    const KvSpec kv{.kv_heads = 2, .head_dim = head_dim, .page_size = 16};
    Int16Case expected({.kv = kv, .value_spread = 300.0F}, {{0, 30, 9}, {1, 5, 1}});
    on_every_isa(2, [&](const kernels::CpuTarget& target) {
      Int16Case data({.kv = kv, .value_spread = 300.0F}, {{0, 30, 9}, {1, 5, 1}});
      data.forget();
      EXPECT_NE(data.stored(), expected.stored());
      for (const kernels::Chunk& chunk : data.chunks())
        data.store(chunk.sequence, chunk.first_position + chunk.rows,
                   [&](const kernels::RotaryCall& call) { cpu::rotary_int16(target, call); });
      EXPECT_EQ(data.stored(), expected.stored());
    });
  }
}

TEST(AttentionInt16Cpu, EveryIsaGivesTheReferenceBitsAtEveryHeadSize) {
  for (const std::int32_t head_dim : {2, 10, 16, 32, 50, 64, 80, 96, 128, 256, 512}) {
    SCOPED_TRACE("head_dim " + std::to_string(head_dim));
    Int16Case data({.kv = {.kv_heads = 1, .head_dim = head_dim, .page_size = 32}, .group = 3, .value_spread = 40.0F},
                   {{0, 60, 9}, {1, 200, 1}});
    expect_int16_bits(data, 1);
  }
}

TEST(AttentionInt16Cpu, EveryIsaGivesTheReferenceBitsForEveryGroupOfHeads) {
  for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 13, 50}) {
    SCOPED_TRACE("group " + std::to_string(group));
    Int16Case data({.kv = {.kv_heads = 2, .head_dim = 32, .page_size = 16}, .group = group, .query_scale = 20.0F},
                   {{0, 0, 3}, {2, 130, 1}, {1, 57, 12}});
    expect_int16_bits(data, 2);
  }
}

TEST(AttentionInt16Cpu, EveryIsaGivesTheReferenceBitsAroundTheEdgesOfBlocks) {
  for (const std::int32_t first : {0, 1, 15, 63, 64, 126, 127, 128, 129, 255, 256, 257, 300})
    for (const std::int32_t rows : {1, 2, 70}) {
      SCOPED_TRACE("first position " + std::to_string(first) + ", rows " + std::to_string(rows));
      Int16Case data({.kv = {.kv_heads = 1, .head_dim = 32}, .value_spread = 0.001F}, {{0, first, rows}});
      expect_int16_bits(data, 1);
    }
}

TEST(AttentionInt16Cpu, EveryIsaGivesTheReferenceBitsWithAWindow) {
  for (const std::int32_t window : {1, 2, 16, 127, 128, 129, 200, 1000})
    for (const std::int32_t first : {0, 127, 128, 300}) {
      SCOPED_TRACE("window " + std::to_string(window) + ", first position " + std::to_string(first));
      const KvSpec kv{.kv_heads = 1, .head_dim = 16, .page_size = 16};
      Int16Case data({.kv = kv, .window = window}, {{0, first, 70}, {1, first, 1}});
      expect_int16_bits(data, 2);
    }
}

TEST(AttentionInt16Cpu, BitsDoNotDependOnThreadsOrTheirShareOfTheKeys) {
  for (const std::int32_t rows : {1, 3, 40}) {
    Int16Case data({.kv = {.kv_heads = 2, .head_dim = 48, .page_size = 64}, .group = 4}, {{0, 1700, rows}});
    for (const int threads : {1, 2, 3, 5}) expect_int16_bits(data, threads);
  }
}

TEST(AttentionInt16Cpu, ARowHasTheSameBitsInEveryCutAndOnEveryPage) {
  const KvSpec kv{.kv_heads = 2, .head_dim = 64, .page_size = 64};
  Int16Case whole({.kv = kv}, {{0, 0, 300}});
  Rows all = whole.expected();
  for (const std::int32_t page_size : {16, 128})
    for (const std::int32_t first : {127, 128, 140, 299}) {
      KvSpec other = kv;
      other.page_size = page_size;
      other.page_seed = 7;
      Int16Case part({.kv = other}, {{0, first, 300 - first}});
      Rows rows = part.expected();
      EXPECT_TRUE(same_bits(part.row_of(rows, 0, 299), whole.row_of(all, 0, 299))) << page_size << " " << first;
    }
}

TEST(AttentionInt16Cpu, AQueryOrAKeyThatIsNotFiniteIsFoundAtItsRowAndHead) {
  for (const float bad : {INFINITY, NAN}) {
    Int16Case data({.kv = {.kv_heads = 2, .head_dim = 32}}, {{0, 150, 5}});
    data.queries().at(3, 2 * 32 + 5) = bad;
    on_every_isa(2, [&](const kernels::CpuTarget& target) {
      Rows out = data.empty_result();
      EXPECT_EQ(describe(cpu::attention_int16(target, data.call(out))), "3:2");
    });
    Int16Case keys({.kv = {.kv_heads = 2, .head_dim = 32}}, {{0, 150, 5}});
    const auto place = reference::find_place(keys.pages(), keys.call(data.queries()).batch, 0, 152, 1);
    static_cast<std::uint8_t*>(keys.pages().key_exponents)[place.head / 32 + place.slot] = int16::kNotFinite;
    on_every_isa(2, [&](const kernels::CpuTarget& target) {
      Rows out = keys.empty_result();
      EXPECT_EQ(describe(cpu::attention_int16(target, keys.call(out))), "2:2");
    });
  }
}

// One head by binary64, with the contract's numbers as parameters: close to the reference with all of them, and the
// reference itself must tell a block of 64 keys from one of 128.
TEST(AttentionInt16Cpu, IsCloseToExactAttention) {
  Int16Case data({.kv = {.kv_heads = 1, .head_dim = 64}, .group = 1, .query_scale = 3.0F}, {{0, 299, 1}});
  Rows out = data.expected();
  const kernels::KvPages pages = data.pages();
  const kernels::AttentionCall call = data.call(out);
  const auto* keys = static_cast<const std::int16_t*>(pages.keys);
  const auto* values = static_cast<const std::int16_t*>(pages.values);
  double sum = 0, error = 0, norm = 0;
  std::vector<double> expected(64);
  for (std::int32_t t = 0; t < 300; ++t) {
    const auto place = reference::find_place(pages, call.batch, 0, t, 0);
    const auto unit = [&](const void* units) {
      return std::ldexp(1.0, static_cast<const std::uint8_t*>(units)[place.head / 64 + place.slot] - 127);
    };
    double score = 0;
    for (std::int32_t d = 0; d < 64; ++d)
      score += static_cast<double>(data.queries().at(0, d)) * keys[place.paired_key(d)] * unit(pages.key_exponents);
    const double p = std::exp(score / 8);
    sum += p;
    for (std::int32_t d = 0; d < 64; ++d)
      expected[static_cast<std::size_t>(d)] += p * values[place.paired_value(d)] * unit(pages.value_exponents);
  }
  for (std::int32_t d = 0; d < 64; ++d) {
    const double exact = expected[static_cast<std::size_t>(d)] / sum;
    error += std::pow(out.at(0, d) - exact, 2);
    norm += exact * exact;
  }
  EXPECT_LT(std::sqrt(error / norm), 3e-3);
  EXPECT_GT(std::sqrt(error / norm), 1e-6);  // the control: digits are left out, and it shows
}

// Moving a key to another place of its block moves no bit; moving it to another block does.
TEST(AttentionInt16Cpu, KeysHaveNoOrderInsideABlock) {
  const auto swapped = [](std::int32_t a, std::int32_t b) {
    Int16Case data({.kv = {.kv_heads = 1, .head_dim = 64, .page_size = 256}, .group = 1}, {{0, 255, 1}});
    const kernels::KvPages pages = data.pages();
    Rows out = data.empty_result();
    const kernels::AttentionCall call = data.call(out);
    const auto first = reference::find_place(pages, call.batch, 0, a, 0);
    const auto second = reference::find_place(pages, call.batch, 0, b, 0);
    for (std::int32_t d = 0; d < 64; ++d) {
      auto* keys = static_cast<std::int16_t*>(pages.keys);
      auto* values = static_cast<std::int16_t*>(pages.values);
      std::swap(keys[first.paired_key(d)], keys[second.paired_key(d)]);
      std::swap(values[first.paired_value(d)], values[second.paired_value(d)]);
    }
    for (void* units : {pages.key_exponents, pages.value_exponents})
      std::swap(static_cast<std::uint8_t*>(units)[first.head / 64 + first.slot],
                static_cast<std::uint8_t*>(units)[second.head / 64 + second.slot]);
    return data.expected();
  };
  Rows plain = swapped(0, 0), inside = swapped(3, 120), across = swapped(3, 200);
  EXPECT_TRUE(same_bits(inside, plain));
  EXPECT_FALSE(same_bits(across, plain));
}

}  // namespace
}  // namespace reprofuse
