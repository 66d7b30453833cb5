// Attention by contracts int16-1 and exact-2 on the GPU: every kernel and every cut of the work gives the reference's
// bits, in pages and in results.
#include <cmath>

#include "ops/attention_integer_cuda_case.hpp"

namespace reprofuse {
namespace {

INSTANTIATE_TEST_SUITE_P(Digits, AttentionIntegerCuda, ::testing::Values(2, 3));

// Stores by the GPU what the reference stored.
template <class Wait>
void store_again(const cuda::DeviceSite& site, IntegerCase& data, const Wait& wait) {
  const DeviceKv batch_on_device(data.kv());
  const IntegerDevicePages pages(data);
  for (const kernels::Chunk& chunk : data.chunks())
    data.store(chunk.sequence, chunk.first_position + chunk.rows, [&](const kernels::RotaryCall& host) {
      const auto rows = static_cast<std::size_t>(host.batch.rows);
      const auto matrix = [&](const ConstMatrix& m) {
        return upload(m.data, static_cast<std::size_t>(m.rows * m.stride) * sizeof(float));
      };
      const cuda::DeviceBuffer q = matrix(as_const(host.q)), k = matrix(host.k), v = matrix(host.v);
      const std::size_t angles = rows * static_cast<std::size_t>(host.kv.head_dim / 2) * sizeof(float);
      const cuda::DeviceBuffer cos = upload(host.cos, angles), sin = upload(host.sin, angles);
      const cuda::DeviceBuffer positions = upload(host.batch.positions, rows * sizeof(std::int32_t));
      const cuda::DeviceBuffer sequences = upload(host.batch.sequences, rows * sizeof(std::int32_t));
      kernels::RotaryCall call = host;
      call.q.data = q.as<float>();
      call.k.data = k.as<float>();
      call.v.data = v.as<float>();
      call.cos = cos.as<float>();
      call.sin = sin.as<float>();
      call.batch = batch_on_device.batch();
      call.batch.rows = host.batch.rows;
      call.batch.positions = positions.as<std::int32_t>();
      call.batch.sequences = sequences.as<std::int32_t>();
      call.kv = pages.pages();
      cuda::integer_attention::rotary(site, call, data.digits());
      wait();
      pages.fetch();
    });
}

TEST_P(AttentionIntegerCuda, KeysAndValuesAreStoredAsTheReferenceStoresThem) {
  for (const std::int32_t head_dim : {16, 48, 64, 96, 128, 256})
    for (const std::int32_t page_size : {16, 64}) {
      SCOPED_TRACE("head_dim " + std::to_string(head_dim));
      const IntegerSpec spec{.kv = {.kv_heads = 2, .head_dim = head_dim, .page_size = page_size},
                             .value_spread = 300.0F,
                             .digits = digits()};
      IntegerCase expected(spec, {{0, 30, 9}, {1, 5, 1}}), data(spec, {{0, 30, 9}, {1, 5, 1}});
      data.forget();
      EXPECT_NE(data.stored(), expected.stored());
      store_again(site(), data, [&] { synchronize(); });
      EXPECT_EQ(data.stored(), expected.stored());
    }
}

TEST_P(AttentionIntegerCuda, EveryHeadSizeHasTheReferenceBits) {
  for (const std::int32_t head_dim : {16, 32, 48, 64, 80, 96, 112, 128, 160, 256}) {
    SCOPED_TRACE("head_dim " + std::to_string(head_dim));
    IntegerCase data({.kv = {.kv_heads = 2, .head_dim = head_dim, .page_size = 32},
                      .group = 3,
                      .value_spread = 40.0F,
                      .digits = digits()},
                     {{0, 60, 30}, {1, 300, 1}});
    expect_reference_bits(data);
  }
}

// One small batch for every kernel: what racecheck gets through in seconds.
TEST_P(AttentionIntegerCuda, EveryKernelHasTheReferenceBitsOnce) {
  IntegerCase data({.kv = {.kv_heads = 1, .head_dim = 64}, .group = 2, .digits = digits()},
                   {{0, 100, 70}, {1, 300, 1}});
  expect_reference_bits(data);
}

TEST_P(AttentionIntegerCuda, EveryGroupOfHeadsHasTheReferenceBits) {
  for (const std::int32_t head_dim : {64, 128})
    for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 32}) {
      SCOPED_TRACE("group " + std::to_string(group));
      IntegerCase data({.kv = {.kv_heads = 2, .head_dim = head_dim, .page_size = 16},
                        .group = group,
                        .query_scale = 5.0F,
                        .digits = digits()},
                       {{0, 0, 3}, {2, 200, 1}, {1, 57, 12}});
      expect_reference_bits(data);
    }
}

TEST_P(AttentionIntegerCuda, TheEdgesOfBlocksHaveTheReferenceBits) {
  for (const std::int32_t first : {0, 1, 15, 63, 64, 65, 126, 127, 128, 129, 200, 255, 256, 257})
    for (const std::int32_t rows : {1, 2, 5, 63, 64, 65, 130, 200}) {
      SCOPED_TRACE("first position " + std::to_string(first) + ", rows " + std::to_string(rows));
      IntegerCase data({.kv = {.kv_heads = 1, .head_dim = 64}, .group = 2, .value_spread = 0.001F, .digits = digits()},
                       {{0, first, rows}});
      expect_reference_bits(data);
    }
}

TEST_P(AttentionIntegerCuda, AWindowHasTheReferenceBits) {
  for (const std::int32_t window : {1, 2, 16, 63, 127, 128, 129, 200, 1000})
    for (const std::int32_t first : {0, 63, 127, 128, 390}) {
      SCOPED_TRACE("window " + std::to_string(window) + ", first position " + std::to_string(first));
      const KvSpec kv{.kv_heads = 1, .head_dim = 64, .page_size = 16};
      IntegerCase data({.kv = kv, .group = 2, .window = window, .value_spread = 7.0F, .digits = digits()},
                       {{0, first, 150}, {1, first, 1}});
      expect_reference_bits(data);
    }
}

TEST_P(AttentionIntegerCuda, EveryPageSizeAndLayoutHasTheReferenceBits) {
  for (const std::int32_t page_size : {16, 32, 64, 128, 256})
    for (const std::uint64_t page_seed : {2, 3}) {
      SCOPED_TRACE("page size " + std::to_string(page_size));
      const KvSpec kv{.kv_heads = 3, .head_dim = 128, .page_size = page_size, .page_seed = page_seed};
      IntegerCase data({.kv = kv, .digits = digits()}, {{0, 250, 20}, {1, 300, 1}, {2, 0, 290}});
      expect_reference_bits(data);
    }
}

// Decode rows and prefill chunks of many lengths in one batch.
TEST_P(AttentionIntegerCuda, MixedBatchesHaveTheReferenceBits) {
  const std::vector<ChunkSpec> chunks = {{0, 500, 1},  {3, 0, 77}, {1, 63, 1}, {2, 64, 2},  {6, 0, 1},
                                         {5, 128, 33}, {4, 7, 4},  {8, 0, 64}, {7, 300, 1}, {9, 65, 165}};
  for (const std::int32_t head_dim : {64, 80, 96, 128, 256}) {
    SCOPED_TRACE("head_dim " + std::to_string(head_dim));
    IntegerCase data({.kv = {.kv_heads = 2, .head_dim = head_dim}, .group = 3, .query_scale = 3.0F, .digits = digits()},
                     chunks);
    expect_reference_bits(data);
  }
}

// Scores far apart, so that weights underflow and the maximum moves from block to block; values of many sizes.
TEST_P(AttentionIntegerCuda, SteepScoresHaveTheReferenceBits) {
  for (const float scale : {1e-20F, 30.0F, 1000.0F})
    for (const float spread : {1.0F, 1e5F}) {
      IntegerCase data({.kv = {.kv_heads = 2, .head_dim = 128},
                        .group = 4,
                        .query_scale = scale,
                        .value_spread = spread,
                        .digits = digits()},
                       {{0, 400, 1}, {1, 200, 190}});
      expect_reference_bits(data);
    }
}

TEST_P(AttentionIntegerCuda, LongContextsHaveTheReferenceBits) {
  IntegerCase data({.kv = {.kv_heads = 1, .head_dim = 128}, .group = 3, .query_scale = 4.0F, .digits = digits()},
                   {{0, 5000, 1}, {1, 2100, 7}});
  expect_reference_bits(data);
  IntegerCase rows({.kv = {.kv_heads = 1, .head_dim = 128}, .group = 2, .query_scale = 4.0F, .digits = digits()},
                   {{0, 0, 900}});
  expect_reference_bits(rows);
  EXPECT_GE(runs_, 10);
}

// So many partials that the merge refills its stages and works out its factors for several groups of runs.
TEST_P(AttentionIntegerCuda, VeryLongContextsHaveTheReferenceBits) {
  IntegerCase data({.kv = {.kv_heads = 1, .head_dim = 16, .page_size = 256}, .group = 1, .digits = digits()},
                   {{0, 67'000, 1}, {1, 13'000, 1}});
  expect_reference_bits(data);
}

// Launches that follow each other at once, as they do in a model, use the same workspace.
TEST_P(AttentionIntegerCuda, LaunchesInARowHaveTheReferenceBits) {
  constexpr std::size_t kLaunches = 60;
  const IntegerSpec spec{.kv = {.kv_heads = 8, .head_dim = 128, .page_size = 64}, .group = 3, .digits = digits()};
  IntegerCase longer(spec, {{0, 1023, 1}}), shorter(spec, {{0, 700, 1}});
  IntegerCase* cases[] = {&longer, &shorter};
  const OnDevice devices[] = {OnDevice(longer), OnDevice(shorter)};
  Rows got = longer.empty_result();
  std::vector<DeviceRows> outs;
  outs.reserve(kLaunches);
  for (std::size_t i = 0; i < kLaunches; ++i) outs.emplace_back(got);
  for (std::size_t i = 0; i < kLaunches; ++i) {
    const kernels::AttentionCall call = devices[i % 2].call(cases[i % 2]->call(got), outs[i]);
    const IntegerSchedule& schedule = kIntegerSchedules[i / 2 % std::size(kIntegerSchedules)];
    if (can_run(schedule, call))
      cuda::integer_attention::attention_with(site(), call, schedule, digits());
    else
      cuda::integer_attention::attention(site(), call, digits());
  }
  EXPECT_EQ(describe(failure()), "none");
  Rows expected[] = {longer.expected(), shorter.expected()};
  ASSERT_FALSE(same_bits(expected[0], expected[1]));
  for (std::size_t i = 0; i < kLaunches; ++i) {
    outs[i].fetch(got);
    ASSERT_TRUE(same_bits(got, expected[i % 2])) << "launch " << i;
  }
}

// One captured graph serves a context that grows up to the bound it was captured with.
TEST_P(AttentionIntegerCuda, ACapturedGraphFollowsAGrowingContext) {
  for (const std::int32_t max_keys : {520, 3000}) {
    IntegerCase longest({.kv = {.kv_heads = 2, .head_dim = 128}, .group = 3, .digits = digits()},
                        {{0, max_keys - 1, 1}, {1, 300, 1}});
    const OnDevice device(longest);
    Rows out = longest.empty_result();
    const DeviceRows device_out(out);
    const kernels::AttentionCall call = device.call(longest.call(out), device_out);
    const cuda::Graph graph(0, [&](void* stream) {
      cuda::DeviceSite on = site();
      on.stream = stream;
      cuda::integer_attention::attention(on, call, digits());
    });
    for (const std::int32_t position : {0, 1, 127, 128, 200, max_keys - 1}) {
      const std::int32_t positions[] = {position, 300};
      cuda::copy_to_device(const_cast<std::int32_t*>(call.batch.positions), positions, sizeof(positions));
      graph.replay(site().stream);
      EXPECT_EQ(describe(failure()), "none");
      device_out.fetch(out);
      Rows expected = longest.empty_result();
      kernels::AttentionCall host = longest.call(expected);
      host.batch.positions = positions;
      longest.scheme().attention(host);
      EXPECT_TRUE(same_bits(out, expected)) << "position " << position << " of " << max_keys;
    }
  }
}

TEST_P(AttentionIntegerCuda, ANonFiniteScoreIsRecordedWithItsRowAndHead) {
  for (const IntegerSchedule& schedule : kIntegerSchedules)
    for (const float bad : {INFINITY, NAN}) {
      const auto is_place = [](const std::string& got, const std::string& place) {
        return got == place || got == "none here" ? ::testing::AssertionSuccess()
                                                  : ::testing::AssertionFailure() << got << ", not " << place;
      };
      const auto failure_of = [&](IntegerCase& data) {
        Rows out = data.empty_result();
        const OnDevice device(data);
        const DeviceRows device_out(out);
        if (!can_run(schedule, data.call(out))) return std::string("none here");
        cuda::integer_attention::attention_with(site(), device.call(data.call(out), device_out), schedule, digits());
        return describe(failure());
      };
      IntegerCase data({.kv = {.kv_heads = 2, .head_dim = 64}, .digits = digits()}, {{0, 150, 5}});
      data.queries().at(3, 2 * 64 + 5) = bad;
      EXPECT_TRUE(is_place(failure_of(data), "3:2")) << name_of(schedule);
      IntegerCase keys({.kv = {.kv_heads = 2, .head_dim = 64}, .digits = digits()}, {{0, 150, 5}});
      const auto place = reference::find_place(keys.pages(), keys.call(data.queries()).batch, 0, 152, 1);
      static_cast<std::uint8_t*>(keys.pages().key_units)[place.head / 64 + place.slot] = int16::kNotFinite;
      EXPECT_TRUE(is_place(failure_of(keys), "2:2")) << name_of(schedule);
    }
}

// Control: the comparison used above must see another block of keys, and a weight that is off by one.
TEST_P(AttentionIntegerCuda, OtherNumbersWouldBeCaught) {
  IntegerCase data({.kv = {.kv_heads = 2, .head_dim = 64, .page_size = 256}, .group = 2, .digits = digits()},
                   {{0, 300, 1}, {1, 100, 150}});
  Rows expected = data.expected(), got = data.empty_result();
  // One element of the values, and one key moved to the next block.
  const auto differs = [&](const auto& change) {
    IntegerCase other({.kv = {.kv_heads = 2, .head_dim = 64, .page_size = 256}, .group = 2, .digits = digits()},
                      {{0, 300, 1}, {1, 100, 150}});
    change(other);
    const OnDevice device(other);
    const DeviceRows out(got);
    cuda::integer_attention::attention(site(), device.call(other.call(got), out), digits());
    EXPECT_EQ(describe(failure()), "none");
    out.fetch(got);
    return !static_cast<bool>(same_bits(got, expected));
  };
  EXPECT_FALSE(differs([](IntegerCase&) {}));
  EXPECT_TRUE(differs([&](IntegerCase& of) {
    for (std::int32_t t = 0; t < 300; ++t) of.set_value(of.place_of(0, t), 3, 100 * (digits() == 2 ? 256 : 65536));
  }));
  EXPECT_TRUE(differs([](IntegerCase& of) { of.swap_positions(0, 3, 200); }));
}

// Every digit at its end, in the longest heads: no sum overflows.
TEST_P(AttentionIntegerCuda, TheLargestSumsHaveTheReferenceBits) {
  const std::int32_t most = digits() == 2 ? 127 * 257 : 127 * 65793;
  const std::int32_t least = digits() == 2 ? -126 * 256 - 128 : -126 * 65536 - 128 * 257;
  for (const std::int32_t head_dim : {128, 256})
    for (const std::int32_t integer : {most, least}) {
      IntegerCase data({.kv = {.kv_heads = 1, .head_dim = head_dim, .page_size = 128}, .group = 2, .digits = digits()},
                       {{0, 100, 28}, {1, 127, 1}});
      for (std::int32_t row = 0; row < 29; ++row)
        for (std::int32_t d = 0; d < 2 * head_dim; ++d)
          data.queries().at(row, d) = std::ldexp(static_cast<float>(integer), digits() == 2 ? -15 : -23);
      for (const std::int32_t sequence : {0, 1})
        for (std::int32_t t = 0; t < 128; ++t) {
          const auto place = data.place_of(sequence, t);
          data.key_unit(place) = data.value_unit(place) = static_cast<std::uint8_t>(digits() == 2 ? 112 : 104);
          for (std::int32_t d = 0; d < head_dim; ++d) {
            data.set_key(place, d, t % 2 == 0 ? integer : -integer);
            data.set_value(place, d, integer);
          }
        }
      expect_reference_bits(data);
    }
}

// A key of much probability whose values are tiny, in blocks that rows see whole and in others.
TEST_P(AttentionIntegerCuda, AKeyOfTinyValuesHasTheReferenceBits) {
  for (const int shift : {0, 12, 60, 90}) {
    IntegerCase data({.kv = {.kv_heads = 1, .head_dim = 128}, .group = 2, .query_scale = 8.0F, .digits = digits()},
                     {{0, 200, 100}, {1, 150, 1}});
    for (const std::int32_t sequence : {0, 1}) {
      const auto place = data.place_of(sequence, 17);
      for (std::int32_t d = 0; d < 128; ++d) data.set_key(place, d, 100 * data.key(place, d) / 128);
      data.key_unit(place) = static_cast<std::uint8_t>(data.key_unit(place) + 4);
      data.value_unit(place) = static_cast<std::uint8_t>(data.value_unit(place) - shift);
    }
    expect_reference_bits(data);
  }
}

}  // namespace
}  // namespace reprofuse
