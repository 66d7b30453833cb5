// Decode attention whose rows are cut over CTAs: the partials are folded into the reference's bits, launch after
// launch, whether or not keys and values were prefetched.
#include "ops/attention_cuda_case.hpp"

namespace reprofuse {
namespace {

class AttentionCudaMerge : public AttentionCuda {
 protected:
  static constexpr std::uint32_t kPoison = 0xffffffff;  // a NaN

  // Makes NaNs of the partials that earlier launches left, so that folding one before it is stored would show.
  void poison_partials() const {
    const std::vector<std::uint32_t> poison(kPoisonedBytes / sizeof(kPoison), kPoison);
    cuda::copy_to_device(partials(), poison.data(), kPoisonedBytes);
  }
  // Partials lie without gaps from the first on, so that the poison lies where they are stored.
  std::uint32_t first_partial() const {
    std::uint32_t word = 0;
    cuda::copy_to_host(&word, partials(), sizeof(word));
    return word;
  }

 private:
  static constexpr std::size_t kPoisonedBytes = std::size_t{16} << 20;

  std::byte* partials() const { return static_cast<std::byte*>(site().workspace) + cuda::kWorkspaceHead; }
};

// Rows of as many lengths as there are decode items: some have fewer key blocks than CTAs that could share them, and
// some items have no row for the decode kernel.
TEST_F(AttentionCudaMerge, PartialsAreFoldedOnceAllAreStored) {
  constexpr std::int32_t kItems = 70;
  std::vector<ChunkSpec> chunks;
  chunks.reserve(kItems);
  for (std::int32_t s = 0; s < kItems; ++s) chunks.push_back({s, s * 37 % 900, s % 9 == 4 ? 3 : 1});
  AttentionCase data({.kv = {.kv_heads = 2, .head_dim = 128, .page_size = 64}, .group = 3}, chunks);
  Rows expected = data.expected();
  const DeviceKv kv(data.kv());
  const DeviceRows q(data.queries());
  Rows unused = data.empty_result();
  for (const AttentionPhases phases : {AttentionPhases::kDecode, AttentionPhases::kBoth})
    for (const int splits : {2, 5, 15})
      for (const AttentionSchedule& schedule :
           {AttentionSchedule{phases, splits, false, false}, AttentionSchedule{phases, splits, false, true},
            AttentionSchedule{phases, splits, false, false, DecodeBy::kStream}}) {
        if (!can_run(schedule, data.call(unused))) continue;
        SCOPED_TRACE(name_of(schedule));
        poison_partials();
        ASSERT_EQ(first_partial(), kPoison);
        Rows got = data.empty_result();
        const DeviceRows out(got);
        cuda::attention_with(site(), on_device(data.call(unused), kv, q, out), schedule);
        EXPECT_EQ(describe(failure()), "none");
        out.fetch(got);
        EXPECT_TRUE(same_bits(got, expected));
        EXPECT_NE(first_partial(), kPoison);
      }
}

// Launches that follow each other at once, as they do in a model, use the same workspace.
TEST_F(AttentionCudaMerge, LaunchesInARowHaveTheReferenceBits) {
  constexpr std::size_t kLaunches = 100;
  const AttentionSpec spec{.kv = {.kv_heads = 8, .head_dim = 128, .page_size = 64}, .group = 3};
  AttentionCase longer(spec, {{0, 1023, 1}}), shorter(spec, {{0, 700, 1}});
  AttentionCase* cases[] = {&longer, &shorter};
  const DeviceKv kvs[] = {DeviceKv(longer.kv()), DeviceKv(shorter.kv())};
  const DeviceRows queries[] = {DeviceRows(longer.queries()), DeviceRows(shorter.queries())};
  Rows got = longer.empty_result();
  std::vector<DeviceRows> outs;
  outs.reserve(kLaunches);
  for (std::size_t i = 0; i < kLaunches; ++i) outs.emplace_back(got);
  const bool streams = cuda::attention_stream_stages(site(), longer.call(got)) > 0;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    const std::size_t which = i % 2;
    const AttentionSchedule schedule{AttentionPhases::kDecode, i % 3 == 0 ? 7 : 16, false, i % 5 < 3,
                                     streams && i % 7 < 4 ? DecodeBy::kStream : DecodeBy::kDirect};
    cuda::attention_with(site(), on_device(cases[which]->call(got), kvs[which], queries[which], outs[i]), schedule);
  }
  EXPECT_EQ(describe(failure()), "none");
  Rows expected[] = {longer.expected(), shorter.expected()};
  ASSERT_FALSE(same_bits(expected[0], expected[1]));
  for (std::size_t i = 0; i < outs.size(); ++i) {
    outs[i].fetch(got);
    ASSERT_TRUE(same_bits(got, expected[i % 2])) << "launch " << i;
  }
}

// One captured graph serves a context that grows up to the bound it was captured with.
TEST_F(AttentionCudaMerge, ACapturedGraphFollowsAGrowingContext) {
  constexpr std::int32_t kMaxKeys = 520;
  const AttentionSpec spec{.kv = {.kv_heads = 2, .head_dim = 128, .page_size = 32}, .group = 3};  // for no cluster
  AttentionCase longest(spec, {{0, kMaxKeys - 1, 1}, {1, 300, 1}});
  const DeviceKv kv(longest.kv());
  const DeviceRows q(longest.queries());
  Rows out = longest.empty_result();
  const DeviceRows device_out(out);
  const kernels::AttentionCall call = on_device(longest.call(out), kv, q, device_out);
  ASSERT_TRUE(cuda::choose_attention_schedule(site(), call).prefetch);
  const cuda::Graph graph(0, [&](void* stream) {
    cuda::DeviceSite on = site();
    on.stream = stream;
    cuda::attention(on, call);
  });
  for (const std::int32_t position : {0, 1, 63, 64, 200, kMaxKeys - 1}) {
    const std::int32_t positions[] = {position, 300};
    cuda::copy_to_device(const_cast<std::int32_t*>(call.batch.positions), positions, sizeof(positions));
    graph.replay(site().stream);
    EXPECT_EQ(describe(failure()), "none");
    device_out.fetch(out);
    Rows expected = longest.empty_result();
    kernels::AttentionCall host = longest.call(expected);
    host.batch.positions = positions;
    reference::attention(host);
    EXPECT_TRUE(same_bits(out, expected)) << "position " << position;
  }
}

// CTAs of a second wave start when the first has waited: what they prefetch they could as well fetch.
TEST_F(AttentionCudaMerge, OnlyALaunchOfOneWavePrefetches) {
  AttentionCase data({.kv = {.kv_heads = 8, .head_dim = 128, .page_size = 32}, .group = 3}, {{0, 200, 1}});
  Rows out = data.empty_result();
  kernels::AttentionCall call = data.call(out);  // chosen by its sizes, never launched
  call.batch.max_keys = 256;
  EXPECT_EQ(cuda::choose_attention_schedule(site(), call).splits, 4);
  EXPECT_TRUE(cuda::choose_attention_schedule(site(), call).prefetch);
  call.batch.rows = 1000;  // 8,000 CTAs
  EXPECT_FALSE(cuda::choose_attention_schedule(site(), call).prefetch);
}

}  // namespace
}  // namespace reprofuse
