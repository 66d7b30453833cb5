// Controls of attention's order: any other gives other bits. And how far its results are from exact ones.
#include <fmt/format.h>

#include "ops/attention_altered.hpp"

namespace reprofuse {
namespace {

bool bits_match(AttentionCase& data, const AlteredAttention::Order& order) {
  Rows expected = data.expected();
  Rows other = data.empty_result();
  const kernels::AttentionCall call = data.call(other);
  AlteredAttention(call, order).run();
  return static_cast<bool>(same_bits(other, expected));
}

TEST(AttentionOrder, AnotherOrderGivesOtherBits) {
  AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 32}, .group = 2}, {{0, 150, 30}});
  EXPECT_TRUE(bits_match(data, {}));
  EXPECT_FALSE(bits_match(data, {.block = 32}));
  EXPECT_FALSE(bits_match(data, {.block = 128}));
  EXPECT_FALSE(bits_match(data, {.fused = false}));
  EXPECT_FALSE(bits_match(data, {.merge_from_the_right = true}));
  EXPECT_FALSE(bits_match(data, {.running = true}));
  EXPECT_FALSE(bits_match(data, {.scaled_query = true}));
}

// A head of 64 has a scale of exactly 1/8, which commutes with every rounding: what tells orders apart is not the
// scale.
TEST(AttentionOrder, APowerOfTwoMayScaleTheQueryInstead) {
  AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 64}, .group = 2}, {{0, 150, 10}});
  EXPECT_TRUE(bits_match(data, {.scaled_query = true}));
}

TEST(AttentionOrder, BlocksAreCutAtAbsolutePositions) {
  AttentionCase data({.kv = {.kv_heads = 1, .head_dim = 32}, .group = 2, .window = 100}, {{0, 150, 30}});
  EXPECT_TRUE(bits_match(data, {}));
  EXPECT_FALSE(bits_match(data, {.blocks_from_the_window = true}));
}

// The error's root mean square over that of the exact results; in double precision these have no error to speak of.
double relative_rms_error(AttentionCase& data) {
  Rows out = data.expected();
  const kernels::AttentionCall call = data.call(out);
  const std::int64_t head_dim = call.kv.head_dim;
  double squared_error = 0.0;
  double squared = 0.0;
  for (std::int64_t m = 0; m < call.q.rows; ++m)
    for (std::int64_t h = 0; h < call.heads; ++h) {
      const std::int64_t group = call.heads / call.kv.kv_heads;
      double sum = 0.0;
      std::vector<double> exact(static_cast<std::size_t>(head_dim));
      for (std::int64_t j = 0; j <= call.batch.positions[m]; ++j) {
        const auto place = reference::find_place(call.kv, call.batch, call.batch.sequences[m], j, h / group);
        double dot = 0.0;
        for (std::int64_t d = 0; d < head_dim; ++d)
          dot += static_cast<double>(call.q.data[m * call.q.stride + h * head_dim + d]) *
                 reference::load_element(call.kv.keys, call.kv.dtype, place.key(d));
        const double weight = std::exp(dot * static_cast<double>(call.scale));
        sum += weight;
        for (std::int64_t d = 0; d < head_dim; ++d)
          exact[static_cast<std::size_t>(d)] +=
              weight * reference::load_element(call.kv.values, call.kv.dtype, place.value(d));
      }
      for (std::int64_t d = 0; d < head_dim; ++d) {
        const double value = exact[static_cast<std::size_t>(d)] / sum;
        squared += value * value;
        squared_error += std::pow(out.at(m, h * head_dim + d) - value, 2);
      }
    }
  return std::sqrt(squared_error / squared);
}

// Most of it is the error of the scores, whose magnitude here is 3 to 20.
TEST(AttentionOrder, ResultsAreWithinAMillionthOfExactOnes) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int32_t head_dim : {64, 128}) {
      const KvSpec kv{.kv_heads = 1, .head_dim = head_dim, .page_size = 64, .dtype = dtype};
      AttentionCase data({.kv = kv, .group = 4}, {{0, 1000, 24}, {1, 0, 24}});
      const double error = relative_rms_error(data);
      RecordProperty(std::string(dtype_name(dtype)) + "_" + std::to_string(head_dim), fmt::format("{:.2e}", error));
      EXPECT_LT(error, 1e-6);
      EXPECT_GT(error, 1e-8);
    }
}

}  // namespace
}  // namespace reprofuse
