// Decode by contracts int16-1 and exact-2 on the GPU that rotates its rows itself: results and pages have the bits of
// rotary and attention one after the other, as the reference computes them.
#include <cmath>

#include "ops/attention_integer_cuda_case.hpp"

namespace reprofuse {
namespace {

// Rows of single tokens before rotary. Pages hold other keys and values at their positions.
struct UnrotatedCase {
  UnrotatedCase(const IntegerSpec& of, const std::vector<ChunkSpec>& rows, bool norm)
      : spec(of),
        chunks(rows),
        has_norms(norm),
        data(of, rows),
        k(data.kv().rows(), of.kv.kv_heads * of.kv.head_dim, 32, 4),
        v(data.kv().rows(), of.kv.kv_heads * of.kv.head_dim, 33, 3, 5.0F),
        norms(2, of.kv.head_dim, 34),
        cos(data.kv().max_keys(), of.kv.head_dim / 2, 35, 0, 0.25F),
        sin(data.kv().max_keys(), of.kv.head_dim / 2, 36, 0, 0.25F) {}

  kernels::RotaryCall rotary() {
    return {.q = data.queries().view(),
            .k = as_const(k.view()),
            .v = as_const(v.view()),
            .q_norm = has_norms ? &norms.at(0, 0) : nullptr,
            .k_norm = has_norms ? &norms.at(1, 0) : nullptr,
            .eps = 1e-6F,
            .cos = &cos.at(0, 0),
            .sin = &sin.at(0, 0),
            .batch = data.kv().batch(),
            .kv = data.pages()};
  }

  IntegerSpec spec;
  std::vector<ChunkSpec> chunks;
  bool has_norms;
  IntegerCase data;
  Rows k, v, norms, cos, sin;
};

class RotaryAttentionIntegerCuda : public AttentionIntegerCuda {
 protected:
  // The case on the device, by `run(rotary, attention)`. Pages come back to the case.
  template <typename Run>
  Rows result_of(UnrotatedCase& c, const Run& run) {
    Rows out = c.data.empty_result();
    const OnDevice device(c.data);
    const DeviceRows device_out(out), k(c.k), v(c.v), norms(c.norms), cos(c.cos), sin(c.sin);
    kernels::RotaryCall rotary = c.rotary();
    rotary.q = device.q.view();
    rotary.k = k.const_view();
    rotary.v = v.const_view();
    rotary.q_norm = c.has_norms ? norms.data() : nullptr;
    rotary.k_norm = c.has_norms ? norms.data() + c.spec.kv.head_dim : nullptr;
    rotary.cos = cos.data();
    rotary.sin = sin.data();
    rotary.batch = device.kv.batch();
    rotary.kv = device.pages.pages();
    run(rotary, device.call(c.data.call(out), device_out));
    synchronize();
    device_out.fetch(out);
    device.pages.fetch();
    return out;
  }

  Rows result_of(UnrotatedCase& c, const IntegerSchedule& schedule) {
    return result_of(c, [&](const kernels::RotaryCall& rotary, const kernels::AttentionCall& call) {
      cuda::integer_attention::attention_with(site(), call, schedule, digits(), &rotary);
    });
  }

  void expect_reference_bits(const IntegerSpec& spec, const std::vector<ChunkSpec>& chunks, bool norm = false) {
    UnrotatedCase one(spec, chunks, norm);
    one.data.scheme().rotary(one.rotary());
    Rows expected = one.data.expected();
    const auto compare = [&](const auto& run, const std::string& what) {
      UnrotatedCase mine(spec, chunks, norm);
      EXPECT_NE(mine.data.stored(), one.data.stored());
      Rows got = run(mine);
      ASSERT_EQ(describe(failure()), "none") << what;
      ASSERT_TRUE(same_bits(got, expected)) << what << ": " << wrong_elements(got, expected);
      ASSERT_TRUE(mine.data.stored() == one.data.stored()) << what << ": what the pages hold";
      ++runs_;
    };
    Rows out = one.data.empty_result();
    for (const IntegerSchedule& schedule : kIntegerSchedules)
      if (can_run(schedule, one.data.call(out)) && cuda::integer_attention::can_rotate(one.data.call(out), schedule))
        compare([&](UnrotatedCase& mine) { return result_of(mine, schedule); }, name_of(schedule));
    if (!cuda::integer_attention::can_stream(site(), one.data.call(out), digits())) return;
    compare(
        [&](UnrotatedCase& mine) {
          return result_of(mine, [&](const kernels::RotaryCall& rotary, const kernels::AttentionCall& call) {
            EXPECT_TRUE(cuda::integer_attention::rotary_and_attention(site(), rotary, call, digits()));
          });
        },
        "chosen");
  }
};

INSTANTIATE_TEST_SUITE_P(Digits, RotaryAttentionIntegerCuda, ::testing::Values(2, 3));

// At the first position, around the edges of pages and blocks, and far on.
const std::vector<ChunkSpec> kRows = {{0, 0, 1},   {3, 1, 1},   {1, 63, 1},  {2, 64, 1},  {4, 126, 1}, {6, 127, 1},
                                      {5, 128, 1}, {7, 255, 1}, {8, 256, 1}, {9, 300, 1}, {10, 700, 1}};

TEST_P(RotaryAttentionIntegerCuda, EveryPositionHasTheReferenceBits) {
  for (const bool norm : {false, true})
    for (const std::int32_t head_dim : {64, 128}) {
      SCOPED_TRACE("head_dim " + std::to_string(head_dim) + (norm ? " with norms" : ""));
      expect_reference_bits(
          {.kv = {.kv_heads = 2, .head_dim = head_dim}, .group = 3, .query_scale = 3.0F, .digits = digits()}, kRows,
          norm);
    }
}

TEST_P(RotaryAttentionIntegerCuda, EveryKernelHasTheReferenceBitsOnce) {
  expect_reference_bits({.kv = {.kv_heads = 1, .head_dim = 64}, .group = 2, .digits = digits()},
                        {{0, 400, 1}, {1, 128, 1}}, true);
}

TEST_P(RotaryAttentionIntegerCuda, EveryGroupOfHeadsHasTheReferenceBits) {
  for (const std::int32_t group : {1, 2, 4, 5, 8, 9, 13, 32}) {
    SCOPED_TRACE("group " + std::to_string(group));
    expect_reference_bits({.kv = {.kv_heads = 2, .head_dim = 128, .page_size = 16}, .group = group, .digits = digits()},
                          {{0, 0, 1}, {2, 200, 1}, {1, 57, 1}}, group % 2 == 0);
  }
}

TEST_P(RotaryAttentionIntegerCuda, EveryPageSizeAndWindowHasTheReferenceBits) {
  for (const std::int32_t page_size : {16, 32, 64, 128, 256})
    for (const std::int32_t window : {0, 1, 100, 128, 300}) {
      SCOPED_TRACE("page size " + std::to_string(page_size) + ", window " + std::to_string(window));
      const KvSpec kv{.kv_heads = 1, .head_dim = 64, .page_size = page_size};
      expect_reference_bits({.kv = kv, .group = 2, .window = window, .value_spread = 40.0F, .digits = digits()}, kRows);
    }
}

TEST_P(RotaryAttentionIntegerCuda, LongContextsHaveTheReferenceBits) {
  expect_reference_bits({.kv = {.kv_heads = 1, .head_dim = 128}, .group = 3, .query_scale = 4.0F, .digits = digits()},
                        {{0, 5000, 1}, {1, 2100, 1}});
  if (cuda::read_device(0).major >= 9) {
    EXPECT_GE(runs_, 4);
  }
}

// Rows whose keys other rows of the pass store, and heads without such kernels: rotary takes its turn.
TEST_P(RotaryAttentionIntegerCuda, WhatItCannotRotateIsLeftToOthers) {
  for (const auto& [head_dim, rows] : {std::pair{64, 2}, std::pair{96, 1}}) {
    UnrotatedCase c({.kv = {.kv_heads = 1, .head_dim = head_dim}, .digits = digits()}, {{0, 20, rows}}, false),
        same = c;
    result_of(c, [&](const kernels::RotaryCall& rotary, const kernels::AttentionCall& call) {
      EXPECT_FALSE(cuda::integer_attention::rotary_and_attention(site(), rotary, call, digits()));
    });
    EXPECT_TRUE(c.data.stored() == same.data.stored()) << "nothing has run";
  }
}

TEST_P(RotaryAttentionIntegerCuda, ANonFiniteQueryOrKeyIsRecordedWithItsRowAndHead) {
  for (const IntegerSchedule& schedule : kIntegerSchedules)
    for (const float bad : {INFINITY, NAN}) {
      UnrotatedCase query({.kv = {.kv_heads = 2, .head_dim = 64}, .digits = digits()}, kRows, false);
      Rows out = query.data.empty_result();
      const kernels::AttentionCall call = query.data.call(out);
      if (!can_run(schedule, call) || !cuda::integer_attention::can_rotate(call, schedule)) continue;
      query.data.queries().at(9, 2 * 64 + 5) = bad;
      result_of(query, schedule);
      EXPECT_EQ(describe(failure()), "9:2") << name_of(schedule);
      UnrotatedCase key({.kv = {.kv_heads = 2, .head_dim = 64}, .digits = digits()}, kRows, false);
      key.k.at(6, 64 + 7) = bad;
      result_of(key, schedule);
      EXPECT_EQ(describe(failure()), "6:2") << name_of(schedule);
    }
}

// Control: a rotation that turns nothing, and another element of a key or a value, must show in the comparisons above:
// in the row of position 1, where it weighs much.
TEST_P(RotaryAttentionIntegerCuda, OtherNumbersWouldBeCaught) {
  const IntegerSpec spec{.kv = {.kv_heads = 1, .head_dim = 64}, .group = 2, .query_scale = 0.3F, .digits = digits()};
  const IntegerSchedule schedule{AttentionPhases::kDecode, 1, false, false, DecodeBy::kStream};
  UnrotatedCase plain(spec, kRows, false);
  Rows out = plain.data.empty_result();
  if (!can_run(schedule, plain.data.call(out))) GTEST_SKIP() << "this device does not stream";
  Rows expected = result_of(plain, schedule);
  const auto differs = [&](const auto& change) {
    UnrotatedCase other(spec, kRows, false);
    change(other);
    Rows got = result_of(other, schedule);
    return !same_bits(got, expected) && !(other.data.stored() == plain.data.stored());
  };
  EXPECT_FALSE(differs([](UnrotatedCase&) {}));
  EXPECT_TRUE(differs([](UnrotatedCase& c) {
    for (std::int32_t d = 0; d < 32; ++d) {
      c.cos.at(1, d) = 1.0F;
      c.sin.at(1, d) = 0.0F;
    }
  }));
  EXPECT_TRUE(differs([](UnrotatedCase& c) { c.k.at(1, 3) = c.k.at(1, 3) * 1.5F + 0.5F; }));
  EXPECT_TRUE(differs([](UnrotatedCase& c) { c.v.at(1, 3) = c.v.at(1, 3) * 1.5F + 0.5F; }));
  EXPECT_EQ(describe(failure()), "none");
}

}  // namespace
}  // namespace reprofuse
