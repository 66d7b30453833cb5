// Decode attention by clusters: the reference's bits for every shape that fits.
#include "kernels/cuda/runtime/device.hpp"
#include "ops/attention_cuda_case.hpp"

namespace reprofuse {
namespace {

class AttentionCudaCluster : public AttentionCuda {
 protected:
  void SetUp() override {
    AttentionCuda::SetUp();
    if (IsSkipped()) return;
    if (const cuda::Device device = cuda::read_device(0); device.major != 9)
      GTEST_SKIP() << device.architecture << " may have no clusters of 16 blocks";
  }

  // By all schedules, clusters among them.
  void expect_bits_of_clusters(AttentionCase& data) {
    Rows out = data.empty_result();
    ASSERT_GT(cuda::attention_clusters_at_once(site(), data.call(out)), 0);
    expect_reference_bits(data);
  }
};

TEST_F(AttentionCudaCluster, EveryGroupOfHeadsHasTheReferenceBits) {
  for (const DType dtype : kKvTypes)
    for (const std::int32_t head_dim : {64, 128})
      for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13}) {
        SCOPED_TRACE("head_dim " + std::to_string(head_dim) + ", group " + std::to_string(group));
        AttentionCase data({.kv = {.kv_heads = 2, .head_dim = head_dim, .dtype = dtype}, .group = group, .padding = 3},
                           {{0, 0, 3}, {2, 100, 1}, {1, 957, 2}});
        expect_bits_of_clusters(data);
      }
}

TEST_F(AttentionCudaCluster, EveryNumberOfKeyBlocksHasTheReferenceBits) {
  for (const std::int32_t last : {0, 1, 62, 63, 64, 65, 127, 128, 500, 511, 512, 900, 1022, 1023}) {
    SCOPED_TRACE("position " + std::to_string(last));
    AttentionCase data({.kv = {.kv_heads = 2, .head_dim = 128}, .group = 3}, {{0, last, 1}, {1, last / 2, 1}});
    expect_bits_of_clusters(data);
  }
}

TEST_F(AttentionCudaCluster, AWindowHasTheReferenceBits) {
  for (const std::int32_t window : {1, 2, 63, 64, 65, 100, 800})
    for (const std::int32_t position : {0, 63, 64, 700, 3000}) {
      SCOPED_TRACE("window " + std::to_string(window) + ", position " + std::to_string(position));
      AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 64}, .group = 2, .window = window}, {{0, position, 1}});
      expect_bits_of_clusters(data);
    }
}

TEST_F(AttentionCudaCluster, OtherOrdersWouldBeCaught) {
  constexpr AttentionSchedule kCluster{AttentionPhases::kDecode, 1, false, false, DecodeBy::kCluster};
  for (const DType dtype : kKvTypes)
    for (const std::int32_t head_dim : {64, 128}) {
      SCOPED_TRACE("head_dim " + std::to_string(head_dim));
      AttentionCase data({.kv = {.kv_heads = 2, .head_dim = head_dim, .dtype = dtype}, .group = 3},
                         {{0, 300, 1}, {1, 957, 1}});
      expect_only_the_contracts_order(
          data, [&](const kernels::AttentionCall& call) { cuda::attention_with(site(), call, kCluster); });
    }
}

TEST_F(AttentionCudaCluster, IsChosenForFewRowsWithFewKeys) {
  AttentionCase data({.kv = {.kv_heads = 8, .head_dim = 128}, .group = 3}, {{0, 200, 1}});
  Rows out = data.empty_result();
  kernels::AttentionCall call = data.call(out);  // chosen by its sizes, never launched
  call.batch.max_keys = 1024;
  EXPECT_EQ(cuda::choose_attention_schedule(site(), call).decode, DecodeBy::kCluster);
  call.batch.rows = 1000;
  EXPECT_NE(cuda::choose_attention_schedule(site(), call).decode, DecodeBy::kCluster);
  call.batch.rows = 1;
  call.batch.max_keys = 1025;
  EXPECT_NE(cuda::choose_attention_schedule(site(), call).decode, DecodeBy::kCluster);
  call.batch.max_keys = 1024;
  call.batch.rows = call.batch.max_chunk_rows = 100;  // a prefill, which decodes nothing
  EXPECT_NE(cuda::choose_attention_schedule(site(), call).decode, DecodeBy::kCluster);
}

// One captured graph serves a context that grows up to the bound it was captured with, and launches that follow each
// other at once.
TEST_F(AttentionCudaCluster, ACapturedGraphFollowsAGrowingContext) {
  constexpr std::int32_t kMaxKeys = 1024, kLaunches = 20;
  AttentionCase longest({.kv = {.kv_heads = 8, .head_dim = 128}, .group = 3}, {{0, kMaxKeys - 1, 1}, {1, 300, 1}});
  const DeviceKv kv(longest.kv());
  const DeviceRows q(longest.queries());
  Rows out = longest.empty_result();
  std::vector<DeviceRows> outs;
  for (std::int32_t i = 0; i < kLaunches; ++i) outs.emplace_back(out);
  const cuda::Graph graph(0, [&](void* stream) {
    cuda::DeviceSite on = site();
    on.stream = stream;
    for (const DeviceRows& to : outs) {
      const kernels::AttentionCall call = on_device(longest.call(out), kv, q, to);
      ASSERT_EQ(cuda::choose_attention_schedule(on, call).decode, DecodeBy::kCluster);
      cuda::attention(on, call);
    }
  });
  for (const std::int32_t position : {0, 1, 63, 64, 200, kMaxKeys - 1}) {
    const std::int32_t positions[] = {position, 300};
    cuda::copy_to_device(const_cast<std::int32_t*>(kv.batch().positions), positions, sizeof(positions));
    graph.replay(site().stream);
    EXPECT_EQ(describe(failure()), "none");
    Rows expected = longest.empty_result();
    kernels::AttentionCall host = longest.call(expected);
    host.batch.positions = positions;
    reference::attention(host);
    for (const DeviceRows& from : outs) {
      from.fetch(out);
      ASSERT_TRUE(same_bits(out, expected)) << "position " << position;
    }
  }
}

}  // namespace
}  // namespace reprofuse
