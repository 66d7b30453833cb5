// Attention in orders that are not the contract's, for controls: tests that compare bits must tell them apart.
#pragma once

#include "numerics/exp_log.hpp"
#include "ops/attention_case.hpp"

namespace reprofuse {

// One row and head at a time: what reference::attention computes, in the order asked for.
class AlteredAttention {
 public:
  struct Order {
    std::int64_t block = 64;
    bool fused = true;
    bool merge_from_the_right = false;
    bool running = false;  // one softmax whose maximum grows key by key
    bool blocks_from_the_window = false;
    bool scaled_query = false;  // scale * query before the dot product instead of scale * score
  };

  AlteredAttention(const kernels::AttentionCall& call, const Order& order) : call_(call), order_(order) {}

  void run() const {
    for (std::int64_t m = 0; m < call_.q.rows; ++m)
      for (std::int64_t h = 0; h < call_.heads; ++h) run_head(m, h);
  }

 private:
  struct Softmax {
    float max = 0.0F;
    float sum = 0.0F;
    std::vector<float> weighted;
  };

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
      dot = multiply_add(element, reference::load_element(call_.kv.keys, call_.kv.dtype, place.key(d)), dot);
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
      weighted = multiply_add(weight, value, weighted);
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
    Softmax total{.max = max, .sum = multiply_add(left.sum, a, right.sum * b), .weighted = empty()};
    for (std::size_t d = 0; d < total.weighted.size(); ++d)
      total.weighted[d] = multiply_add(left.weighted[d], a, right.weighted[d] * b);
    return total;
  }

  float multiply_add(float a, float b, float c) const { return order_.fused ? std::fma(a, b, c) : a * b + c; }
  std::vector<float> empty() const { return std::vector<float>(static_cast<std::size_t>(call_.kv.head_dim)); }

  const kernels::AttentionCall& call_;
  Order order_;
};

}  // namespace reprofuse
