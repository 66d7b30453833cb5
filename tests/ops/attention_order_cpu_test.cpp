// Controls of attention's order: any other gives other bits. And how far its results are from exact ones.
#include <fmt/format.h>

#include "numerics/exp.hpp"
#include "ops/attention_case.hpp"

namespace reprofuse {
namespace {

struct Order {
  std::int64_t block = 64;
  bool fused = true;
  bool merge_from_the_right = false;
  bool running = false;  // one softmax whose maximum grows key by key
  bool blocks_from_the_window = false;
  bool scaled_query = false;  // scale * query before the dot product instead of scale * score
};

struct Softmax {
  float max = 0.0F;
  float sum = 0.0F;
  std::vector<float> weighted;
};

float multiply_add(const Order& order, float a, float b, float c) {
  return order.fused ? std::fma(a, b, c) : a * b + c;
}

// One row and head at a time: what reference::attention computes, in the order asked for.
class AlteredAttention {
 public:
  AlteredAttention(const kernels::AttentionCall& call, const Order& order) : call_(call), order_(order) {}

  void run() const {
    for (std::int64_t m = 0; m < call_.q.rows; ++m)
      for (std::int64_t h = 0; h < call_.heads; ++h) run_head(m, h);
  }

 private:
  void run_head(std::int64_t m, std::int64_t h) const {
    const std::int64_t end = call_.batch.positions[m] + 1;
    const std::int64_t begin = call_.window > 0 ? std::max<std::int64_t>(0, end - call_.window) : 0;
    const std::int64_t origin = order_.blocks_from_the_window ? begin : begin / order_.block * order_.block;
    std::vector<Softmax> blocks;
    for (std::int64_t block = origin; block < end; block += order_.block)
      blocks.push_back(block_softmax(m, h, std::max(begin, block), std::min(end, block + order_.block)));
    Softmax total;
    if (order_.running) {
      total = running_softmax(m, h, begin, end);
    } else if (order_.merge_from_the_right) {
      total = blocks.back();
      for (std::size_t i = blocks.size() - 1; i > 0; --i) total = merged(blocks[i - 1], total);
    } else {
      total = blocks.front();
      for (std::size_t i = 1; i < blocks.size(); ++i) total = merged(total, blocks[i]);
    }
    const std::int64_t head_dim = call_.kv.head_dim;
    for (std::int64_t d = 0; d < head_dim; ++d)
      call_.out.data[m * call_.out.stride + h * head_dim + d] =
          total.weighted[static_cast<std::size_t>(d)] / total.sum + 0.0F;
  }

  float score(std::int64_t m, std::int64_t h, std::int64_t position) const {
    const auto place = place_of(m, h, position);
    const float* query = call_.q.data + m * call_.q.stride + h * call_.kv.head_dim;
    float dot = 0.0F;
    for (std::int64_t d = 0; d < call_.kv.head_dim; ++d) {
      const float element = order_.scaled_query ? query[d] * call_.scale : query[d];
      dot = multiply_add(order_, element, reference::load_element(call_.kv.keys, call_.kv.dtype, place.key(d)), dot);
    }
    return order_.scaled_query ? dot : dot * call_.scale;
  }

  reference::KvPlace place_of(std::int64_t m, std::int64_t h, std::int64_t position) const {
    const std::int64_t group = call_.heads / call_.kv.kv_heads;
    return reference::find_place(call_.kv, call_.batch, call_.batch.sequences[m], position, h / group);
  }

  void add_value(Softmax* softmax, std::int64_t m, std::int64_t h, std::int64_t position, float weight) const {
    const auto place = place_of(m, h, position);
    softmax->sum = softmax->sum + weight;
    for (std::int64_t d = 0; d < call_.kv.head_dim; ++d) {
      float& weighted = softmax->weighted[static_cast<std::size_t>(d)];
      const float value = reference::load_element(call_.kv.values, call_.kv.dtype, place.value(d));
      weighted = multiply_add(order_, weight, value, weighted);
    }
  }

  Softmax block_softmax(std::int64_t m, std::int64_t h, std::int64_t begin, std::int64_t end) const {
    Softmax softmax{.max = score(m, h, begin), .weighted = empty()};
    for (std::int64_t j = begin; j < end; ++j) softmax.max = std::max(softmax.max, score(m, h, j));
    for (std::int64_t j = begin; j < end; ++j) add_value(&softmax, m, h, j, exp_f32(score(m, h, j) - softmax.max));
    return softmax;
  }

  Softmax running_softmax(std::int64_t m, std::int64_t h, std::int64_t begin, std::int64_t end) const {
    Softmax softmax{.max = score(m, h, begin), .weighted = empty()};
    for (std::int64_t j = begin; j < end; ++j) {
      const float next = score(m, h, j);
      if (next > softmax.max) {
        const float rescale = exp_f32(softmax.max - next);
        softmax.max = next;
        softmax.sum = softmax.sum * rescale;
        for (float& weighted : softmax.weighted) weighted = weighted * rescale;
      }
      add_value(&softmax, m, h, j, exp_f32(next - softmax.max));
    }
    return softmax;
  }

  Softmax merged(const Softmax& left, const Softmax& right) const {
    const float max = std::max(left.max, right.max);
    const float a = exp_f32(left.max - max);
    const float b = exp_f32(right.max - max);
    Softmax total{.max = max, .sum = multiply_add(order_, left.sum, a, right.sum * b), .weighted = empty()};
    for (std::size_t d = 0; d < total.weighted.size(); ++d)
      total.weighted[d] = multiply_add(order_, left.weighted[d], a, right.weighted[d] * b);
    return total;
  }

  std::vector<float> empty() const { return std::vector<float>(static_cast<std::size_t>(call_.kv.head_dim)); }

  const kernels::AttentionCall& call_;
  Order order_;
};

bool bits_match(AttentionCase& data, const Order& order) {
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
