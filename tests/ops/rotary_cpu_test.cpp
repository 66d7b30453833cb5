// The rotary embedding on the CPU: every instruction set gives the reference's bits, in queries and in pages.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "support/model_ops_case.hpp"

namespace reprofuse {
namespace {

struct RotarySpec {
  KvSpec kv;
  std::int32_t group = 2;
  bool norm = false;
  std::int64_t padding = 0;
};

// Angles that no table of a model has, so that nothing but their use is tested.
struct RotaryCase {
  RotaryCase(const RotarySpec& of, const std::vector<ChunkSpec>& chunks)
      : spec(of),
        kv(of.kv, chunks),
        q(kv.rows(), of.kv.kv_heads * of.group * of.kv.head_dim, 31, of.padding),
        k(kv.rows(), of.kv.kv_heads * of.kv.head_dim, 32, of.padding),
        v(kv.rows(), of.kv.kv_heads * of.kv.head_dim, 33, of.padding),
        norms(2, of.kv.head_dim, 34),
        cos(kv.max_keys(), of.kv.head_dim / 2, 35, 0, 0.25F),
        sin(kv.max_keys(), of.kv.head_dim / 2, 36, 0, 0.25F) {}

  kernels::RotaryCall call() {
    return {.q = q.view(),
            .k = as_const(k.view()),
            .v = as_const(v.view()),
            .q_norm = spec.norm ? &norms.at(0, 0) : nullptr,
            .k_norm = spec.norm ? &norms.at(1, 0) : nullptr,
            .eps = 1e-6F,
            .cos = &cos.at(0, 0),
            .sin = &sin.at(0, 0),
            .batch = kv.batch(),
            .kv = kv.pages()};
  }

  RotarySpec spec;
  KvCase kv;
  Rows q;
  Rows k;
  Rows v;
  Rows norms;
  Rows cos;
  Rows sin;
};

::testing::AssertionResult same_pages(RotaryCase& got, RotaryCase& expected) {
  const std::vector<float> mine = got.kv.stored();
  const std::vector<float> theirs = expected.kv.stored();
  const auto count = static_cast<std::int64_t>(mine.size());
  return same_bits({mine.data(), 1, count, count}, {theirs.data(), 1, count, count});
}

const std::vector<ChunkSpec> kChunks = {{1, 0, 20}, {0, 61, 7}, {2, 33, 1}};

void expect_reference_bits(const RotarySpec& spec, int threads) {
  RotaryCase expected(spec, kChunks);
  reference::rotary(expected.call());
  on_every_isa(threads, [&](const cpu::CpuDevice& device) {
    RotaryCase mine(spec, kChunks);
    cpu::rotary(device, mine.call());
    ASSERT_TRUE(same_bits(mine.q, expected.q));
    ASSERT_TRUE(same_pages(mine, expected));
  });
}

TEST(RotaryCpu, EveryIsaGivesTheReferenceBits) {
  for (const bool norm : {false, true})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const std::int32_t head_dim : {2, 16, 32, 50, 64, 80, 96, 128, 256, 320}) {
        SCOPED_TRACE("head_dim " + std::to_string(head_dim) + (norm ? " with norms" : ""));
        expect_reference_bits({.kv = {.head_dim = head_dim, .page_size = 16, .dtype = dtype}, .norm = norm}, 1);
      }
}

// An infinity that no row sees would still make NaNs of the zero that its key weighs.
TEST(RotaryCpu, HugeKeysAndValuesStayFiniteInABf16Cache) {
  const RotarySpec spec{.kv = {.head_dim = 64, .page_size = 16, .dtype = DType::kBF16}};
  const auto make_huge = [&](RotaryCase& rows) {
    rows.v.at(0, 0) = FLT_MAX;
    rows.v.at(1, 3) = -FLT_MAX;
    rows.k.at(0, 0) = FLT_MAX;  // at position 0, where it is turned by nothing
    rows.cos.at(0, 0) = 1.0F;
    rows.sin.at(0, 0) = 0.0F;
  };
  RotaryCase expected(spec, kChunks);
  make_huge(expected);
  reference::rotary(expected.call());
  on_every_isa(1, [&](const cpu::CpuDevice& device) {
    RotaryCase mine(spec, kChunks);
    make_huge(mine);
    cpu::rotary(device, mine.call());
    ASSERT_TRUE(same_pages(mine, expected));
    const std::vector<float> stored = mine.kv.stored();
    EXPECT_EQ(std::count_if(stored.begin(), stored.end(), [](float x) { return std::abs(x) == 0x1.fep+127F; }), 3);
    EXPECT_EQ(std::count_if(stored.begin(), stored.end(), [](float x) { return std::isinf(x); }), 0);
  });
}

TEST(RotaryCpu, BitsDoNotDependOnThreadsPagesAndPadding) {
  for (const int threads : {1, 2, 3, 5})
    for (const std::int32_t page_size : {16, 64, 256}) {
      const KvSpec kv{.kv_heads = 3, .head_dim = 128, .page_size = page_size};
      expect_reference_bits({.kv = kv, .group = 4, .norm = true, .padding = 5}, threads);
    }
}

// Slots of other positions keep what they held: here the bits that fresh pages are filled with.
TEST(RotaryCpu, OnlyTheSlotsOfItsRowsAreWritten) {
  on_every_isa(2, [&](const cpu::CpuDevice& device) {
    RotaryCase mine({.kv = {.head_dim = 64}}, {{0, 5, 2}});
    cpu::rotary(device, mine.call());
    const std::vector<float> stored = mine.kv.stored();
    const std::size_t per_position = 2 * 64 * 2;
    for (std::size_t i = 0; i < stored.size(); ++i)
      ASSERT_EQ(std::isnan(stored[i]), i < 5 * per_position) << "element " << i;
  });
}

// Controls: unfused products, and neighbours that turn together instead of halves.
TEST(RotaryCpu, AnotherRotationGivesOtherBits) {
  const auto altered = [](kernels::RotaryCall call, bool fused, bool halves) {
    const std::int64_t head_dim = call.kv.head_dim;
    for (std::int64_t m = 0; m < call.q.rows; ++m)
      for (std::int64_t h = 0; h < call.q.cols; h += head_dim)
        for (std::int64_t d = 0; d < head_dim / 2; ++d) {
          float& a = call.q.data[m * call.q.stride + h + (halves ? d : 2 * d)];
          float& b = call.q.data[m * call.q.stride + h + (halves ? d + head_dim / 2 : 2 * d + 1)];
          const std::int64_t angle = call.batch.positions[m] * (head_dim / 2) + d;
          const float cos = call.cos[angle];
          const float sin = call.sin[angle];
          const float turned = fused ? std::fma(a, cos, -(b * sin)) : a * cos - b * sin;
          b = fused ? std::fma(b, cos, a * sin) : b * cos + a * sin;
          a = turned;
        }
  };
  const RotarySpec spec{.kv = {.head_dim = 64}};
  RotaryCase expected(spec, kChunks);
  reference::rotary(expected.call());
  const auto bits_match = [&](bool fused, bool halves) {
    RotaryCase other(spec, kChunks);
    altered(other.call(), fused, halves);
    return static_cast<bool>(same_bits(other.q, expected.q));
  };
  EXPECT_TRUE(bits_match(true, true));
  EXPECT_FALSE(bits_match(false, true));
  EXPECT_FALSE(bits_match(true, false));
}

// One rounded product and one fused multiply-add: at most half an ulp of the product and half of the result.
TEST(RotaryCpu, RotatedPairsAreWithinOneRoundingOfTheProductAndOneOfTheResult) {
  RotaryCase data({.kv = {.head_dim = 64}}, kChunks);
  RotaryCase before({.kv = {.head_dim = 64}}, kChunks);
  reference::rotary(data.call());
  const kernels::RotaryCall call = before.call();
  for (std::int64_t m = 0; m < call.q.rows; ++m)
    for (std::int64_t h = 0; h < call.q.cols; h += 64)
      for (std::int64_t d = 0; d < 32; ++d) {
        const double a = before.q.at(m, h + d);
        const double b = before.q.at(m, h + d + 32);
        const double cos = call.cos[call.batch.positions[m] * 32 + d];
        const double sin = call.sin[call.batch.positions[m] * 32 + d];
        const double bound = 0x1p-24 * 1.000001;
        ASSERT_LE(std::abs(data.q.at(m, h + d) - (a * cos - b * sin)),
                  bound * (std::abs(b * sin) + std::abs(a * cos - b * sin)));
        ASSERT_LE(std::abs(data.q.at(m, h + d + 32) - (b * cos + a * sin)),
                  bound * (std::abs(a * sin) + std::abs(b * cos + a * sin)));
      }
}

}  // namespace
}  // namespace reprofuse
