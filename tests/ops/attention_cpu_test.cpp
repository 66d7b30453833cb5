// Attention on the CPU: every instruction set gives the reference's bits, however rows, keys and pages are cut.
#include "ops/attention_case.hpp"

namespace reprofuse {
namespace {

constexpr DType kKvTypes[] = {DType::kF32, DType::kBF16};

void expect_reference_bits(AttentionCase& data, Rows& expected, int threads) {
  on_every_isa(threads, [&](const cpu::CpuDevice& device) {
    for (const bool workspace : {false, true}) {
      Rows out = data.run(device, workspace);
      ASSERT_TRUE(same_bits(out, expected)) << "workspace " << workspace;
    }
  });
}

void expect_reference_bits(AttentionCase& data, int threads) {
  Rows expected = data.expected();
  expect_reference_bits(data, expected, threads);
}

TEST(AttentionCpu, EveryIsaGivesTheReferenceBitsAtEveryHeadSize) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t head_dim : {2, 10, 16, 32, 50, 64, 80, 96, 128, 256}) {
      SCOPED_TRACE("head_dim " + std::to_string(head_dim));
      const KvSpec kv{.kv_heads = 1, .head_dim = head_dim, .page_size = 32, .dtype = dtype};
      AttentionCase data({.kv = kv, .group = 3}, {{0, 60, 9}, {1, 130, 1}});
      expect_reference_bits(data, 1);
    }
}

TEST(AttentionCpu, EveryIsaGivesTheReferenceBitsForEveryGroupOfHeads) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 13, 50}) {
      SCOPED_TRACE("group " + std::to_string(group));
      const KvSpec kv{.kv_heads = 2, .head_dim = 32, .page_size = 16, .dtype = dtype};
      AttentionCase data({.kv = kv, .group = group, .padding = 3}, {{0, 0, 3}, {2, 100, 1}, {1, 57, 12}});
      expect_reference_bits(data, 2);
    }
}

// Around the edges of blocks, in prefill (many rows) and decode (one).
TEST(AttentionCpu, EveryIsaGivesTheReferenceBitsAroundTheEdgesOfBlocks) {
  for (const std::int32_t first : {0, 1, 15, 62, 63, 64, 65, 126, 127, 128, 129, 200})
    for (const std::int32_t rows : {1, 2, 66}) {
      SCOPED_TRACE("first position " + std::to_string(first) + ", rows " + std::to_string(rows));
      AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 32}, .group = 2}, {{0, first, rows}});
      expect_reference_bits(data, 1);
    }
}

TEST(AttentionCpu, EveryIsaGivesTheReferenceBitsWithAWindow) {
  for (const std::int32_t window : {1, 2, 16, 63, 64, 65, 100, 128, 1000})
    for (const std::int32_t first : {0, 63, 64, 128, 190}) {
      SCOPED_TRACE("window " + std::to_string(window) + ", first position " + std::to_string(first));
      const KvSpec kv{.kv_heads = 1, .head_dim = 16, .page_size = 16};
      AttentionCase data({.kv = kv, .group = 2, .window = window}, {{0, first, 70}, {1, first, 1}});
      expect_reference_bits(data, 2);
    }
}

TEST(AttentionCpu, BitsDoNotDependOnThreadsOrTheirShareOfTheKeys) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t rows : {1, 3, 40}) {
      const KvSpec kv{.kv_heads = 2, .head_dim = 48, .page_size = 64, .dtype = dtype};
      AttentionCase data({.kv = kv, .group = 4}, {{0, 700, rows}});
      Rows expected = data.expected();
      for (const int threads : {1, 2, 3, 5}) expect_reference_bits(data, expected, threads);
    }
}

// The first block that a row sees is far from the first of its text, and the workspace has room for what it sees alone.
TEST(AttentionCpu, ThreadsShareTheKeysOfAWindowWithinTheirWorkspace) {
  const KvSpec kv{.kv_heads = 2, .head_dim = 128, .page_size = 64};
  for (const std::int32_t rows : {1, 3}) {
    AttentionCase data({.kv = kv, .group = 4, .window = 600}, {{0, 3000, rows}});
    expect_reference_bits(data, 3);
  }
}

TEST(AttentionCpu, BitsDoNotDependOnPages) {
  AttentionCase reference_layout({.kv = {.head_dim = 32, .page_size = 256}}, {{0, 250, 20}});
  Rows expected = reference_layout.expected();
  for (const std::int32_t page_size : {16, 32, 64, 128, 256})
    for (const std::uint64_t page_seed : {2, 3, 4}) {
      const KvSpec kv{.head_dim = 32, .page_size = page_size, .page_seed = page_seed};
      AttentionCase data({.kv = kv}, {{0, 250, 20}});
      on_every_isa(2, [&](const cpu::CpuDevice& device) {
        Rows out = data.run(device, false);
        ASSERT_TRUE(same_bits(out, expected)) << "page size " << page_size;
      });
    }
}

TEST(AttentionCpu, RowBitsDoNotDependOnChunksOrOnTheRestOfTheBatch) {
  const AttentionSpec spec{.kv = {.head_dim = 32, .page_size = 16}, .group = 3};
  AttentionCase whole(spec, {{0, 0, 140}});
  Rows expected = whole.expected();
  const std::vector<std::vector<ChunkSpec>> cuts = {
      {{0, 0, 140}, {1, 20, 5}},
      {{1, 90, 1}, {0, 100, 40}, {2, 3, 1}},
      {{0, 139, 1}},
      {{0, 64, 1}},
      {{0, 63, 2}, {1, 0, 30}},
      {{2, 0, 7}, {0, 7, 57}},
  };
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    AttentionCase cut(spec, cuts[c]);
    on_every_isa(2, [&](const cpu::CpuDevice& device) {
      Rows out = cut.run(device, true);
      for (const ChunkSpec& chunk : cuts[c])
        for (std::int32_t r = 0; chunk.sequence == 0 && r < chunk.rows; ++r)
          ASSERT_TRUE(same_bits(cut.row_of(out, 0, chunk.first_position + r),
                                whole.row_of(expected, 0, chunk.first_position + r)))
              << "cut " << c << " position " << chunk.first_position + r;
    });
  }
}

// Weights of keys far below the maximum are subnormal or zero, and those near it are one.
TEST(AttentionCpu, SteepAndFlatSoftmaxesGiveTheReferenceBits) {
  for (const float scale : {0.0F, 0x1p-120F, 8.0F, 30.0F, 1e30F}) {
    AttentionCase data({.kv = {.head_dim = 32}, .group = 2, .query_scale = scale}, {{0, 150, 30}});
    expect_reference_bits(data, 1);
  }
}

TEST(AttentionCpu, SubnormalValuesAndNegativeZerosGiveTheReferenceBits) {
  AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 32}, .group = 2}, {{0, 0, 100}});
  for (std::int32_t position = 0; position < 100; ++position)
    for (std::int32_t d = 0; d < 32; ++d)
      data.kv().set_value(0, position, 0, d, d % 2 == 0 ? -0.0F : -0x1p-149F * static_cast<float>(position % 3));
  expect_reference_bits(data, 1);
}

// A value that a row does not see cannot reach it, even if it is infinite.
TEST(AttentionCpu, ARowIsNotTouchedByValuesItDoesNotSee) {
  AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 32}, .group = 2}, {{0, 0, 100}});
  for (std::int32_t d = 0; d < 32; ++d) data.kv().set_value(0, 99, 0, d, std::numeric_limits<float>::infinity());
  Rows expected = data.expected();
  on_every_isa(1, [&](const cpu::CpuDevice& device) {
    Rows out = data.run(device, false);
    ConstMatrix got = as_const(out.view());
    ConstMatrix want = as_const(expected.view());
    got.rows = want.rows = 99;
    ASSERT_TRUE(same_bits(got, want));
  });
}

void expect_failure(AttentionCase& data, const std::string& place) {
  Rows out = data.empty_result();
  ASSERT_EQ(describe(reference::attention(data.call(out))), place);
  for (const int threads : {1, 3})
    on_every_isa(threads, [&](const cpu::CpuDevice& device) {
      for (const bool workspace : {false, true}) {
        Rows mine = data.empty_result();
        const kernels::AttentionCall request = data.call(mine);
        std::vector<std::byte> memory(cpu::attention_workspace_bytes(request));
        ASSERT_EQ(describe(cpu::attention(device, request, workspace ? memory.data() : nullptr)), place);
      }
    });
}

TEST(AttentionCpu, TheFirstScoreThatIsNotFiniteIsReported) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::max()}) {
    const AttentionSpec spec{.kv = {.kv_heads = 2, .head_dim = 32, .page_size = 16}, .group = 3, .query_scale = 100.0F};
    AttentionCase data(spec, {{1, 0, 30}, {0, 50, 40}, {2, 400, 1}});
    expect_failure(data, "none");
    data.kv().set_key(2, 333, 0, 1, bad);
    expect_failure(data, "70:0");
    data.kv().set_key(0, 80, 1, 5, bad);
    expect_failure(data, "60:3");
    data.kv().set_key(0, 20, 1, 5, bad);
    expect_failure(data, "30:3");
  }
}

TEST(AttentionCpu, AFailingQueryFailsItsOwnRowAndHeadAlone) {
  AttentionCase data({.kv = {.kv_heads = 2, .head_dim = 32}, .group = 2}, {{0, 100, 3}});
  data.queries().at(1, 2 * 32 + 7) = std::numeric_limits<float>::quiet_NaN();
  expect_failure(data, "1:2");
}

}  // namespace
}  // namespace reprofuse
