// The rotary embedding on the GPU: the reference's bits, in queries and in pages.
#include "kernels/cuda/attention/attention.hpp"
#include "support/model_ops_cuda_case.hpp"

namespace reprofuse {
namespace {

struct RotarySpec {
  KvSpec kv;
  std::int32_t group = 2;
  bool norm = false;
  std::int64_t padding = 0;
};

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
  Rows q, k, v, norms, cos, sin;
};

class RotaryCuda : public ModelOpsCuda {
 protected:
  void run(RotaryCase& c) {
    const DeviceKv kv(c.kv);
    const DeviceRows q(c.q), k(c.k), v(c.v), norms(c.norms), cos(c.cos), sin(c.sin);
    cuda::rotary(site(), {.q = q.view(),
                          .k = k.const_view(),
                          .v = v.const_view(),
                          .q_norm = c.spec.norm ? norms.data() : nullptr,
                          .k_norm = c.spec.norm ? norms.data() + c.spec.kv.head_dim : nullptr,
                          .eps = 1e-6F,
                          .cos = cos.data(),
                          .sin = sin.data(),
                          .batch = kv.batch(),
                          .kv = kv.pages()});
    synchronize();
    q.fetch(c.q);
    kv.fetch();
  }

  static ::testing::AssertionResult same_pages(RotaryCase& got, RotaryCase& expected) {
    const std::vector<float> mine = got.kv.stored();
    const std::vector<float> theirs = expected.kv.stored();
    const auto count = static_cast<std::int64_t>(mine.size());
    return same_bits({mine.data(), 1, count, count}, {theirs.data(), 1, count, count});
  }

  void expect_reference_bits(const RotarySpec& spec, const std::vector<ChunkSpec>& chunks) {
    RotaryCase expected(spec, chunks), mine(spec, chunks);
    reference::rotary(expected.call());
    run(mine);
    ASSERT_TRUE(same_bits(mine.q, expected.q));
    ASSERT_TRUE(same_pages(mine, expected));
  }
};

const std::vector<ChunkSpec> kChunks = {{1, 0, 20}, {0, 61, 7}, {2, 33, 1}};

TEST_F(RotaryCuda, EveryHeadSizeHasTheReferenceBits) {
  for (const bool norm : {false, true})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const std::int32_t head_dim : {2, 16, 32, 48, 50, 64, 80, 96, 128, 256}) {
        SCOPED_TRACE("head_dim " + std::to_string(head_dim) + (norm ? " with norms" : ""));
        expect_reference_bits({.kv = {.head_dim = head_dim, .page_size = 16, .dtype = dtype}, .norm = norm}, kChunks);
      }
}

TEST_F(RotaryCuda, EveryPageSizeAndPaddingHasTheReferenceBits) {
  for (const std::int32_t page_size : {16, 32, 64, 128, 256})
    for (const std::int32_t kv_heads : {1, 3, 8}) {
      const KvSpec kv{.kv_heads = kv_heads, .head_dim = 128, .page_size = page_size};
      expect_reference_bits({.kv = kv, .group = 4, .norm = true, .padding = 5}, kChunks);
    }
}

TEST_F(RotaryCuda, ManyRowsHaveTheReferenceBits) {
  expect_reference_bits({.kv = {.kv_heads = 2, .head_dim = 64}, .group = 3}, {{0, 5, 300}, {1, 0, 1}});
}

// Slots of other positions keep what they held: here the bits that fresh pages are filled with.
TEST_F(RotaryCuda, OnlyTheSlotsOfItsRowsAreWritten) {
  RotaryCase mine({.kv = {.head_dim = 64}}, {{0, 5, 2}});
  run(mine);
  const std::vector<float> stored = mine.kv.stored();
  const std::size_t per_position = 2 * 64 * 2;
  for (std::size_t i = 0; i < stored.size(); ++i)
    ASSERT_EQ(std::isnan(stored[i]), i < 5 * per_position) << "element " << i;
}

// Control: products that are rounded on their own must show in the comparison used above.
TEST_F(RotaryCuda, AnUnfusedRotationWouldBeCaught) {
  RotaryCase mine({.kv = {.head_dim = 64}}, kChunks), altered({.kv = {.head_dim = 64}}, kChunks);
  run(mine);
  const kernels::RotaryCall call = altered.call();
  for (std::int64_t m = 0; m < call.q.rows; ++m)
    for (std::int64_t h = 0; h < call.q.cols; h += 64)
      for (std::int64_t d = 0; d < 32; ++d) {
        const float a = altered.q.at(m, h + d), b = altered.q.at(m, h + d + 32);
        const float cos = call.cos[call.batch.positions[m] * 32 + d], sin = call.sin[call.batch.positions[m] * 32 + d];
        altered.q.at(m, h + d) = a * cos - b * sin;
        altered.q.at(m, h + d + 32) = b * cos + a * sin;
      }
  EXPECT_FALSE(same_bits(mine.q, altered.q));
}

TEST_F(RotaryCuda, HeadsThatItCannotTurnAreRefused) {
  RotaryCase c({.kv = {.head_dim = 320}}, kChunks);
  try {
    run(c);
    FAIL() << "a head of 320 elements was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rotary: head_dim 320; the CUDA backend takes even ones up to 256");
  }
}

}  // namespace
}  // namespace reprofuse
