// Decode attention by the TMA: the reference's bits, however often the pipeline of tiles goes round.
#include <set>

#include "ops/attention_cuda_case.hpp"

namespace reprofuse {
namespace {

class AttentionCudaStream : public AttentionCuda {
 protected:
  void SetUp() override {
    AttentionCuda::SetUp();
    if (IsSkipped()) return;
    AttentionCase data({.kv = {.head_dim = 64}}, {{0, 10, 1}});
    Rows out = data.empty_result();
    if (cuda::attention_stream_stages(site(), data.call(out)) == 0) GTEST_SKIP() << "the device has no TMA";
  }

  // By all schedules, streams among them.
  void expect_bits_of_streams(AttentionCase& data) {
    Rows out = data.empty_result();
    ASSERT_GT(cuda::attention_stream_stages(site(), data.call(out)), 0);
    expect_reference_bits(data);
  }

  cuda::AttentionSchedule chosen(AttentionCase& data, std::int32_t rows, std::int32_t max_keys) const {
    Rows out = data.empty_result();
    kernels::AttentionCall call = data.call(out);  // chosen by its sizes, never launched
    call.batch.rows = call.batch.chunk_count = rows;
    call.batch.max_keys = max_keys;
    return cuda::choose_attention_schedule(site(), call);
  }
};

TEST_F(AttentionCudaStream, RowsOfManyKeyBlocksHaveTheReferenceBits) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t head_dim : {64, 128})
      for (const std::int32_t group : {1, 3, 4, 7}) {
        SCOPED_TRACE("head_dim " + std::to_string(head_dim) + ", group " + std::to_string(group));
        AttentionCase data({.kv = {.kv_heads = 1, .head_dim = head_dim, .dtype = dtype}, .group = group},
                           {{0, 2495, 1}, {1, 1090, 3}, {2, 447, 1}});
        expect_bits_of_streams(data);
      }
}

TEST_F(AttentionCudaStream, PipelinesOfAnyDepthHaveTheReferenceBits) {
  std::set<int> sizes;
  for (const DType dtype : kKvTypes)
    for (const std::int32_t head_dim : {64, 128}) {
      AttentionCase data({.kv = {.kv_heads = 2, .head_dim = head_dim, .dtype = dtype}, .group = 3},
                         {{0, 700, 1}, {1, 447, 1}, {2, 70, 1}, {3, 0, 1}});
      Rows expected = data.expected(), unused = data.empty_result();
      const DeviceKv kv(data.kv());
      const DeviceRows q(data.queries());
      const int max_stages = cuda::attention_stream_stages(site(), data.call(unused));
      for (const int splits : {1, 3})
        for (int stages = 2; stages <= max_stages; ++stages) {
          const AttentionSchedule schedule{AttentionPhases::kDecode, splits, false, false,
                                           DecodeBy::kStream,        false,  stages};
          SCOPED_TRACE(name_of(schedule));
          Rows got = data.empty_result();
          const DeviceRows out(got);
          cuda::attention_with(site(), on_device(data.call(unused), kv, q, out), schedule);
          EXPECT_EQ(describe(failure()), "none");
          out.fetch(got);
          EXPECT_TRUE(same_bits(got, expected));
          sizes.insert(stages);
        }
    }
  EXPECT_GE(sizes.size(), 2U);
}

// The first tiles of a window are cleared where the row does not see them, and then filled again.
TEST_F(AttentionCudaStream, LongWindowsHaveTheReferenceBits) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t group : {3, 7, 13})
      for (const std::int32_t window : {500, 513, 1000}) {
        SCOPED_TRACE("group " + std::to_string(group) + ", window " + std::to_string(window));
        AttentionCase data({.kv = {.kv_heads = 2, .head_dim = 128, .dtype = dtype}, .group = group, .window = window},
                           {{0, 1500, 1}, {1, 2047, 1}, {2, 499, 1}});
        expect_bits_of_streams(data);
      }
}

TEST_F(AttentionCudaStream, OtherOrdersWouldBeCaught) {
  for (const int splits : {1, 3})
    for (const DType dtype : kKvTypes) {
      SCOPED_TRACE("splits " + std::to_string(splits));
      AttentionCase data({.kv = {.kv_heads = 2, .head_dim = 128, .dtype = dtype}, .group = 3},
                         {{0, 300, 1}, {1, 957, 1}});
      const AttentionSchedule schedule{AttentionPhases::kDecode, splits, false, false, DecodeBy::kStream};
      expect_only_the_contracts_order(
          data, [&](const kernels::AttentionCall& call) { cuda::attention_with(site(), call, schedule); });
    }
}

TEST_F(AttentionCudaStream, IsChosenForManyRowsAndForManyKeys) {
  AttentionCase data({.kv = {.kv_heads = 8, .head_dim = 128}, .group = 3}, {{0, 200, 1}});
  const AttentionSchedule many_rows = chosen(data, 1000, 1024), many_keys = chosen(data, 1, 100'000);
  EXPECT_EQ(many_rows.decode, DecodeBy::kStream);
  EXPECT_EQ(many_rows.splits, 1);  // CTAs enough: no partials
  EXPECT_EQ(many_keys.decode, DecodeBy::kStream);
  EXPECT_GT(many_keys.splits, 4);
  AttentionCase small_pages({.kv = {.kv_heads = 8, .head_dim = 128, .page_size = 32}, .group = 3}, {{0, 200, 1}});
  EXPECT_EQ(chosen(small_pages, 1000, 1024).decode, DecodeBy::kDirect);
}

}  // namespace
}  // namespace reprofuse
