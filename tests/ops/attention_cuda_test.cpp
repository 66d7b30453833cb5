// Attention on the GPU: every kernel and every cut of the work gives the reference's bits.
#include <algorithm>

#include "ops/attention_cuda_case.hpp"

namespace reprofuse {
namespace {

TEST_F(AttentionCuda, EveryHeadSizeHasTheReferenceBits) {
  for (const DType dtype : kKvTypes)
    for (std::int32_t head_dim = 16; head_dim <= 256; head_dim += 16) {
      SCOPED_TRACE("head_dim " + std::to_string(head_dim));
      const KvSpec kv{.kv_heads = 2, .head_dim = head_dim, .page_size = 32, .dtype = dtype};
      AttentionCase data({.kv = kv, .group = 3}, {{0, 60, 30}, {1, 130, 1}});
      expect_reference_bits(data);
    }
}

TEST_F(AttentionCuda, EveryGroupOfHeadsHasTheReferenceBits) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t head_dim : {64, 128})
      for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 32}) {
        SCOPED_TRACE("group " + std::to_string(group));
        const KvSpec kv{.kv_heads = 2, .head_dim = head_dim, .page_size = 16, .dtype = dtype};
        AttentionCase data({.kv = kv, .group = group, .padding = 3}, {{0, 0, 3}, {2, 100, 1}, {1, 57, 12}});
        expect_reference_bits(data);
      }
}

TEST_F(AttentionCuda, TheEdgesOfBlocksHaveTheReferenceBits) {
  for (const std::int32_t first : {0, 1, 15, 62, 63, 64, 65, 126, 127, 128, 129, 200})
    for (const std::int32_t rows : {1, 2, 5, 66, 130}) {
      SCOPED_TRACE("first position " + std::to_string(first) + ", rows " + std::to_string(rows));
      AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 64}, .group = 2}, {{0, first, rows}});
      expect_reference_bits(data);
    }
}

TEST_F(AttentionCuda, AWindowHasTheReferenceBits) {
  for (const std::int32_t window : {1, 2, 16, 63, 64, 65, 100, 128, 1000})
    for (const std::int32_t first : {0, 63, 64, 128, 190}) {
      SCOPED_TRACE("window " + std::to_string(window) + ", first position " + std::to_string(first));
      const KvSpec kv{.kv_heads = 1, .head_dim = 64, .page_size = 16};
      AttentionCase data({.kv = kv, .group = 2, .window = window}, {{0, first, 70}, {1, first, 1}});
      expect_reference_bits(data);
    }
}

TEST_F(AttentionCuda, EveryPageSizeAndLayoutHasTheReferenceBits) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t page_size : {16, 32, 64, 128, 256})
      for (const std::uint64_t page_seed : {2, 3}) {
        SCOPED_TRACE("page size " + std::to_string(page_size));
        const KvSpec kv{.kv_heads = 3, .head_dim = 128, .page_size = page_size, .dtype = dtype, .page_seed = page_seed};
        AttentionCase data({.kv = kv}, {{0, 250, 20}, {1, 300, 1}});
        expect_reference_bits(data);
      }
}

// Many tiles of queries, which end within the heads of a row, and steps that every query sees whole.
TEST_F(AttentionCuda, LongPromptsHaveTheReferenceBits) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t head_dim : {64, 128, 256})
      for (const std::int32_t window : {0, 333}) {
        SCOPED_TRACE("head_dim " + std::to_string(head_dim) + ", window " + std::to_string(window));
        const KvSpec kv{.kv_heads = 2, .head_dim = head_dim, .dtype = dtype};
        AttentionCase data({.kv = kv, .group = 3, .window = window}, {{0, 0, 190}, {1, 517, 150}});
        expect_reference_bits(data);
      }
}

// Decode rows and prefill chunks of many lengths in one batch.
TEST_F(AttentionCuda, MixedBatchesHaveTheReferenceBits) {
  const std::vector<ChunkSpec> chunks = {{0, 500, 1},  {3, 0, 77}, {1, 63, 1}, {2, 64, 2},  {6, 0, 1},
                                         {5, 128, 33}, {4, 7, 4},  {8, 0, 64}, {7, 300, 1}, {9, 65, 65}};
  for (const DType dtype : kKvTypes)
    for (const std::int32_t head_dim : {64, 80, 128, 256}) {
      SCOPED_TRACE("head_dim " + std::to_string(head_dim));
      AttentionCase data({.kv = {.kv_heads = 2, .head_dim = head_dim, .dtype = dtype}, .group = 3}, chunks);
      expect_reference_bits(data);
    }
}

// Scores far apart, so that weights underflow and the maximum moves from block to block.
TEST_F(AttentionCuda, SteepScoresHaveTheReferenceBits) {
  for (const float scale : {1e-20F, 30.0F, 1000.0F}) {
    AttentionCase data({.kv = {.kv_heads = 2, .head_dim = 64}, .group = 4, .query_scale = scale},
                       {{0, 400, 1}, {1, 100, 90}});
    expect_reference_bits(data);
  }
}

TEST_F(AttentionCuda, LongContextsHaveTheReferenceBits) {
  AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 32, .page_size = 256}, .group = 2},
                     {{0, 5000, 1}, {1, 2100, 7}});
  expect_reference_bits(data);
  EXPECT_EQ(runs_,
            std::ranges::count(kSchedules, DecodeBy::kDirect, &AttentionSchedule::decode) + 1);  // pages too long
}

// So many partials that the merge refills its stages, works out its factors for several groups of runs, and ends within
// one. The largest score is among the last keys or among the first.
TEST_F(AttentionCuda, VeryLongContextsHaveTheReferenceBits) {
  for (const std::int32_t largest : {40, 33'000})
    for (const std::int32_t head_dim : {16, 64}) {
      SCOPED_TRACE("head_dim " + std::to_string(head_dim) + ", largest score at " + std::to_string(largest));
      AttentionCase data({.kv = {.kv_heads = 1, .head_dim = head_dim}, .group = 1}, {{0, 33'500, 1}, {1, 13'000, 1}});
      for (std::int32_t d = 0; d < head_dim; ++d) data.kv().set_key(0, largest, 0, d, 4 * data.queries().at(0, d));
      expect_reference_bits(data);
    }
  for (const std::int32_t head_dim : {80, 256}) {
    SCOPED_TRACE("head_dim " + std::to_string(head_dim));
    AttentionCase data({.kv = {.kv_heads = 1, .head_dim = head_dim}, .group = 1}, {{0, 4'200, 1}, {1, 2'200, 1}});
    expect_reference_bits(data);
  }
}

TEST_F(AttentionCuda, ANonFiniteScoreIsRecordedWithItsRowAndHead) {
  const KvSpec kv{.kv_heads = 2, .head_dim = 64};
  for (const AttentionSchedule& schedule : kSchedules) {
    AttentionCase data({.kv = kv, .group = 2}, {{0, 90, 6}, {1, 100, 1}});
    data.kv().set_key(0, 93, 1, 5, std::numeric_limits<float>::infinity());  // rows 3 on, heads 2 and 3
    data.kv().set_key(1, 2, 0, 0, std::numeric_limits<float>::quiet_NaN());
    Rows out = data.empty_result();
    if (!can_run(schedule, data.call(out))) continue;
    const DeviceKv pages(data.kv());
    const DeviceRows q(data.queries()), device_out(out);
    cuda::attention_with(site(), on_device(data.call(out), pages, q, device_out), schedule);
    EXPECT_EQ(describe(failure()), "3:2") << name_of(schedule);
    EXPECT_EQ(describe(reference::attention(data.call(out))), "3:2");
  }
}

// Also where every query sees the key, and where the weight of the score would be 0.
TEST_F(AttentionCuda, ANonFiniteScoreOfAnEarlyKeyIsRecorded) {
  for (const std::int32_t head_dim : {64, 128, 256})
    for (const float value : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      AttentionCase data({.kv = {.kv_heads = 2, .head_dim = head_dim}, .group = 3}, {{0, 600, 70}});
      data.kv().set_key(0, 20, 1, 5, value);
      for (std::int32_t row = 0; row < 70; ++row)
        for (std::int32_t head = 0; head < 6; ++head) data.queries().at(row, head * head_dim + 5) = 1.0F;
      Rows out = data.empty_result();
      const DeviceKv pages(data.kv());
      const DeviceRows q(data.queries()), device_out(out);
      cuda::attention_with(site(), on_device(data.call(out), pages, q, device_out),
                           {AttentionPhases::kPrefill, 1, false, false});
      EXPECT_EQ(describe(failure()), "0:3") << value;
      EXPECT_EQ(describe(reference::attention(data.call(out))), "0:3");
    }
}

TEST_F(AttentionCuda, HeadsAndWorkspacesThatDoNotFitAreRefused) {
  AttentionCase odd({.kv = {.head_dim = 40}}, {{0, 200, 1}}), good({.kv = {.head_dim = 64}}, {{0, 200, 1}});
  const auto error_of = [&](AttentionCase& data, std::size_t workspace_bytes) -> std::string {
    Rows out = data.empty_result();
    const DeviceKv kv(data.kv());
    const DeviceRows q(data.queries()), device_out(out);
    cuda::DeviceSite small = site();
    small.workspace_bytes = workspace_bytes;
    try {
      const kernels::AttentionCall call = on_device(data.call(out), kv, q, device_out);
      cuda::attention_with(small, call, {AttentionPhases::kDecode, 4, false, false});
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(error_of(odd, kWorkspaceBytes), "attention: head_dim 40; the CUDA backend takes multiples of 16 up to 256");
  const std::size_t enough = cuda::attention_workspace_bytes(4, 64, 1, 1, 201);
  EXPECT_EQ(error_of(good, enough), "none");
  EXPECT_EQ(error_of(good, enough - 4), "attention: a workspace of " + std::to_string(enough - 4) + " bytes, but " +
                                            std::to_string(enough) + " are needed");
  synchronize();
}

TEST_F(AttentionCuda, OtherOrdersWouldBeCaught) {
  AttentionCase data({.kv = {.kv_heads = 2, .head_dim = 64}, .group = 2}, {{0, 300, 1}, {1, 100, 50}});
  expect_only_the_contracts_order(data, [&](const kernels::AttentionCall& call) { cuda::attention(site(), call); });
}

}  // namespace
}  // namespace reprofuse
