// Attention by contracts int16-1 and exact-2 on the CPU: every instruction set gives the reference's bits, in pages and
// in results, however rows, keys and pages are cut; and other numbers than the contract's give other bits.
#include <cmath>
#include <initializer_list>

#include "ops/attention_integer_case.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse {
namespace {

class AttentionIntegerCpu : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Digits, AttentionIntegerCpu, ::testing::Values(2, 3));

std::optional<kernels::NonFinite> attend(const cpu::CpuDevice& device, const kernels::AttentionCall& call, int digits,
                                         void* workspace = nullptr) {
  return (digits == 2 ? cpu::attention_int16 : cpu::attention_exact2)(device, call, workspace);
}

void expect_integer_bits(IntegerCase& data, std::initializer_list<int> thread_counts) {
  Rows expected = data.expected();
  for (const int threads : thread_counts)
    on_every_isa(threads, [&](const cpu::CpuDevice& device) {
      for (const bool workspace : {false, true}) {
        Rows out = data.empty_result();
        const kernels::AttentionCall call = data.call(out);
        std::vector<std::byte> memory(cpu::attention_integer_workspace_bytes(call));
        EXPECT_FALSE(attend(device, call, data.digits(), workspace ? memory.data() : nullptr));
        ASSERT_TRUE(same_bits(out, expected)) << threads << " threads, workspace " << workspace;
      }
    });
}

TEST_P(AttentionIntegerCpu, EveryIsaStoresKeysAndValuesAsTheReference) {
  for (const std::int32_t head_dim : {2, 10, 64, 96, 128}) {
    const KvSpec kv{.kv_heads = 2, .head_dim = head_dim, .page_size = 16};
    IntegerCase expected({.kv = kv, .value_spread = 300.0F, .digits = GetParam()}, {{0, 30, 9}, {1, 5, 1}});
    on_every_isa(2, [&](const cpu::CpuDevice& device) {
      IntegerCase data({.kv = kv, .value_spread = 300.0F, .digits = GetParam()}, {{0, 30, 9}, {1, 5, 1}});
      data.forget();
      EXPECT_NE(data.stored(), expected.stored());
      for (const kernels::Chunk& chunk : data.chunks())
        data.store(chunk.sequence, chunk.first_position + chunk.rows, [&](const kernels::RotaryCall& call) {
          (GetParam() == 2 ? cpu::rotary_int16 : cpu::rotary_exact2)(device, call);
        });
      EXPECT_EQ(data.stored(), expected.stored());
    });
  }
}

TEST_P(AttentionIntegerCpu, EveryIsaGivesTheReferenceBitsAtEveryHeadSize) {
  for (const std::int32_t head_dim : {2, 10, 16, 32, 50, 64, 80, 96, 128, 256, 512}) {
    SCOPED_TRACE("head_dim " + std::to_string(head_dim));
    IntegerCase data({.kv = {.kv_heads = 1, .head_dim = head_dim, .page_size = 32},
                      .group = 3,
                      .value_spread = 40.0F,
                      .digits = GetParam()},
                     {{0, 60, 9}, {1, 200, 1}});
    expect_integer_bits(data, {1});
  }
}

TEST_P(AttentionIntegerCpu, EveryIsaGivesTheReferenceBitsForEveryGroupOfHeads) {
  for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 13, 50}) {
    SCOPED_TRACE("group " + std::to_string(group));
    IntegerCase data({.kv = {.kv_heads = 2, .head_dim = 32, .page_size = 16},
                      .group = group,
                      .query_scale = 20.0F,
                      .digits = GetParam()},
                     {{0, 0, 3}, {2, 130, 1}, {1, 57, 12}});
    expect_integer_bits(data, {2});
  }
}

TEST_P(AttentionIntegerCpu, EveryIsaGivesTheReferenceBitsAroundTheEdgesOfBlocks) {
  for (const std::int32_t first : {0, 1, 15, 63, 64, 126, 127, 128, 129, 255, 256, 257, 300})
    for (const std::int32_t rows : {1, 2, 70}) {
      SCOPED_TRACE("first position " + std::to_string(first) + ", rows " + std::to_string(rows));
      IntegerCase data({.kv = {.kv_heads = 1, .head_dim = 32}, .value_spread = 0.001F, .digits = GetParam()},
                       {{0, first, rows}});
      expect_integer_bits(data, {1});
    }
}

TEST_P(AttentionIntegerCpu, EveryIsaGivesTheReferenceBitsWithAWindow) {
  for (const std::int32_t window : {1, 2, 16, 127, 128, 129, 200, 1000})
    for (const std::int32_t first : {0, 127, 128, 300}) {
      SCOPED_TRACE("window " + std::to_string(window) + ", first position " + std::to_string(first));
      const KvSpec kv{.kv_heads = 1, .head_dim = 16, .page_size = 16};
      IntegerCase data({.kv = kv, .window = window, .digits = GetParam()}, {{0, first, 70}, {1, first, 1}});
      expect_integer_bits(data, {2});
    }
}

TEST_P(AttentionIntegerCpu, BitsDoNotDependOnThreadsOrTheirShareOfTheKeys) {
  for (const std::int32_t rows : {1, 3, 40}) {
    IntegerCase data({.kv = {.kv_heads = 2, .head_dim = 48, .page_size = 64}, .group = 4, .digits = GetParam()},
                     {{0, 1700, rows}});
    expect_integer_bits(data, {1, 2, 3, 5});
  }
}

TEST_P(AttentionIntegerCpu, ARowHasTheSameBitsInEveryCutAndOnEveryPage) {
  const KvSpec kv{.kv_heads = 2, .head_dim = 64, .page_size = 64};
  IntegerCase whole({.kv = kv, .digits = GetParam()}, {{0, 0, 300}});
  Rows all = whole.expected();
  for (const std::int32_t page_size : {16, 128})
    for (const std::int32_t first : {127, 128, 140, 299}) {
      KvSpec other = kv;
      other.page_size = page_size;
      other.page_seed = 7;
      IntegerCase part({.kv = other, .digits = GetParam()}, {{0, first, 300 - first}});
      Rows rows = part.expected();
      EXPECT_TRUE(same_bits(part.row_of(rows, 0, 299), whole.row_of(all, 0, 299))) << page_size << " " << first;
    }
}

TEST_P(AttentionIntegerCpu, AQueryOrAKeyThatIsNotFiniteIsFoundAtItsRowAndHead) {
  for (const float bad : {INFINITY, NAN}) {
    IntegerCase data({.kv = {.kv_heads = 2, .head_dim = 32}, .digits = GetParam()}, {{0, 150, 5}});
    data.queries().at(3, 2 * 32 + 5) = bad;
    on_every_isa(2, [&](const cpu::CpuDevice& device) {
      Rows out = data.empty_result();
      EXPECT_EQ(describe(attend(device, data.call(out), GetParam())), "3:2");
    });
    IntegerCase keys({.kv = {.kv_heads = 2, .head_dim = 32}, .digits = GetParam()}, {{0, 150, 5}});
    const auto place = reference::find_place(keys.pages(), keys.call(data.queries()).batch, 0, 152, 1);
    static_cast<std::uint8_t*>(keys.pages().key_units)[place.head / 32 + place.slot] = int16::kNotFinite;
    on_every_isa(2, [&](const cpu::CpuDevice& device) {
      Rows out = keys.empty_result();
      EXPECT_EQ(describe(attend(device, keys.call(out), GetParam())), "2:2");
    });
  }
}

// One head by binary64, from the integers as they are stored; int16-1 leaves digits out, and it shows.
TEST_P(AttentionIntegerCpu, IsCloseToExactAttention) {
  const KvSpec kv{.kv_heads = 1, .head_dim = 64};
  IntegerCase data({.kv = kv, .group = 1, .query_scale = 3.0F, .digits = GetParam()}, {{0, 299, 1}});
  Rows out = data.expected();
  double sum = 0, error = 0, norm = 0;
  std::vector<double> expected(64);
  for (std::int32_t t = 0; t < 300; ++t) {
    const auto place = data.place_of(0, t);
    const double key_unit = std::ldexp(1.0, data.key_unit(place) - 127);
    const double value_unit = std::ldexp(1.0, data.value_unit(place) - 127);
    double score = 0;
    for (std::int32_t d = 0; d < 64; ++d)
      score += static_cast<double>(data.queries().at(0, d)) * data.key(place, d) * key_unit;
    const double p = std::exp(score / 8);
    sum += p;
    for (std::int32_t d = 0; d < 64; ++d)
      expected[static_cast<std::size_t>(d)] += p * data.value(place, d) * value_unit;
  }
  for (std::int32_t d = 0; d < 64; ++d) {
    const double exact = expected[static_cast<std::size_t>(d)] / sum;
    error += std::pow(out.at(0, d) - exact, 2);
    norm += exact * exact;
  }
  EXPECT_LT(std::sqrt(error / norm), GetParam() == 2 ? 3e-3 : 3e-6);
  EXPECT_GT(std::sqrt(error / norm), GetParam() == 2 ? 1e-6 : 1e-9);
}

// Moving a key to another place of its block moves no bit; moving it to another block does.
TEST_P(AttentionIntegerCpu, KeysHaveNoOrderInsideABlock) {
  const auto swapped = [](std::int32_t a, std::int32_t b) {
    const KvSpec kv{.kv_heads = 1, .head_dim = 64, .page_size = 256};
    IntegerCase data({.kv = kv, .group = 1, .digits = GetParam()}, {{0, 255, 1}});
    data.swap_positions(0, a, b);
    return data.expected();
  };
  Rows plain = swapped(0, 0), inside = swapped(3, 120), across = swapped(3, 200);
  EXPECT_TRUE(same_bits(inside, plain));
  EXPECT_FALSE(same_bits(across, plain));
}

// A control: the first digits of some values show.
TEST_P(AttentionIntegerCpu, AnotherValueHasOtherBits) {
  const auto with_value = [](int first_digit) {
    const KvSpec kv{.kv_heads = 1, .head_dim = 64, .page_size = 256};
    IntegerCase data({.kv = kv, .group = 1, .digits = GetParam()}, {{0, 255, 1}});
    for (std::int32_t t = 0; t < 256; ++t)
      data.set_value(data.place_of(0, t), 3, first_digit * (GetParam() == 2 ? 256 : 65536));
    return data.expected();
  };
  Rows plain = with_value(100), same = with_value(100), other = with_value(101);
  EXPECT_TRUE(same_bits(same, plain));
  EXPECT_FALSE(same_bits(other, plain));
}

// The longest head that is taken, every digit at its end: of one sign, where leading sums are largest, and of the
// other, where trailing ones are. No sum overflows, on any path. A score that did would show beside those of keys whose
// lower digits are zero, which are almost as probable and have other values.
TEST_P(AttentionIntegerCpu, TheLargestSumsFit) {
  const int digits = GetParam();
  const std::int32_t max = digits == 2 ? 127 * 257 : 127 * 65793,
                     min = digits == 2 ? -126 * 256 - 128 : -126 * 65536 - 128 * 257;
  const auto check = [&](std::int32_t head_dim, std::int32_t integer, bool are_alike) {
    const std::int32_t other_key = are_alike ? -integer : integer - integer % (digits == 2 ? 256 : 65536);
    const KvSpec kv{.kv_heads = 1, .head_dim = head_dim, .page_size = 128};
    IntegerCase data({.kv = kv, .group = 2, .digits = digits}, {{0, 127, 1}});
    for (std::int32_t d = 0; d < head_dim; ++d)
      data.queries().at(0, d) = std::ldexp(static_cast<float>(integer), digits == 2 ? -15 : -23);
    for (std::int32_t t = 0; t < 128; ++t) {
      const auto place = data.place_of(0, t);
      data.key_unit(place) = data.value_unit(place) = static_cast<std::uint8_t>(digits == 2 ? 112 : 104);
      for (std::int32_t d = 0; d < head_dim; ++d) {
        data.set_key(place, d, t % 2 == 0 ? integer : other_key);
        data.set_value(place, d, are_alike || t % 2 == 0 ? integer : -integer);
      }
    }
    expect_integer_bits(data, {1});
    if (!are_alike) return;
    Rows out = data.expected();
    const double value = std::ldexp(static_cast<double>(integer), digits == 2 ? -15 : -23);
    EXPECT_NEAR(out.at(0, 3), value, std::abs(value) * (digits == 2 ? 1e-2 : 1e-6)) << head_dim;
  };
  for (const std::int32_t head_dim : {128, 512})
    for (const std::int32_t integer : {max, min})
      for (const bool are_alike : {true, false}) check(head_dim, integer, are_alike);
}

TEST_P(AttentionIntegerCpu, LongerHeadsAreRefused) {
  const Context context = Context::cpu(GetParam() == 2 ? "int16-1" : "exact-2", std::nullopt, 1);
  const ContextState& state = context.state();
  const auto attention = state.backend->make_attention(*state.numerics->attention, *state.numerics->cache);
  EXPECT_NO_THROW(attention->require_shape(1, 1, 512));
  EXPECT_THROW(attention->require_shape(1, 1, 514), Error);
}

// A key of much probability whose values are tiny: weights of three digits count in what fits the others.
TEST(AttentionExact2Cpu, AKeyOfTinyValuesCostsNoDigits) {
  for (const int shift : {0, 12, 60, 90}) {
    IntegerCase data({.kv = {.kv_heads = 1, .head_dim = 32}, .group = 1, .query_scale = 8.0F, .digits = 3},
                     {{0, 99, 1}});
    const auto place = data.place_of(0, 17);
    for (std::int32_t d = 0; d < 32; ++d) data.set_key(place, d, data.queries().at(0, d) > 0 ? 8'000'000 : -8'000'000);
    data.value_unit(place) = static_cast<std::uint8_t>(data.value_unit(place) - shift);
    expect_integer_bits(data, {1});
  }
}

}  // namespace
}  // namespace reprofuse
