// One call of attention for tests: its queries, its pages, and what the reference makes of them.
#pragma once

#include "support/model_ops_case.hpp"

namespace reprofuse {

struct AttentionSpec {
  KvSpec kv;
  std::int32_t group = 2;  // query heads per KV head
  std::int32_t window = 0;
  std::int64_t padding = 0;
  float query_scale = 1.0F;
};

class AttentionCase {
 public:
  AttentionCase(const AttentionSpec& spec, const std::vector<ChunkSpec>& chunks)
      : spec_(spec),
        kv_(spec.kv, chunks),
        heads_(spec.kv.kv_heads * spec.group),
        queries_(kv_.rows(), heads_ * spec.kv.head_dim, 77, spec.padding, spec.query_scale) {
    kv_.fill(5);
    name_queries_by_position();
  }

  KvCase& kv() { return kv_; }
  Rows& queries() { return queries_; }
  Rows empty_result() const { return Rows(kv_.rows(), heads_ * spec_.kv.head_dim, 1, spec_.padding); }

  kernels::AttentionCall call(Rows& out) {
    return {.q = as_const(queries_.view()),
            .kv = kv_.pages(),
            .batch = kv_.batch(),
            .heads = heads_,
            .scale = 1.0F / std::sqrt(static_cast<float>(spec_.kv.head_dim)),
            .window = spec_.window,
            .out = out.view()};
  }

  Rows expected() {
    Rows out = empty_result();
    EXPECT_FALSE(reference::attention(call(out)));
    return out;
  }

  Rows run(const cpu::CpuDevice& device, bool workspace) {
    Rows out = empty_result();
    const kernels::AttentionCall request = call(out);
    const std::size_t bytes = workspace ? cpu::attention_workspace_bytes(request) : 0;
    std::vector<std::byte> memory(2 * bytes);  // what lies behind the workspace stays as it is
    EXPECT_FALSE(cpu::attention(device, request, workspace ? memory.data() : nullptr));
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    EXPECT_TRUE(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(bytes), memory.end(), is_zero));
    return out;
  }

  // The row of one position, for comparing calls that cut a sequence differently.
  ConstMatrix row_of(Rows& out, std::int32_t sequence, std::int32_t position) const {
    for (const kernels::Chunk& chunk : kv_.chunks())
      if (chunk.sequence == sequence && position >= chunk.first_position &&
          position < chunk.first_position + chunk.rows)
        return {&out.at(chunk.first_row + position - chunk.first_position, 0), 1, heads_ * spec_.kv.head_dim,
                heads_ * spec_.kv.head_dim};
    ADD_FAILURE() << "no chunk has position " << position;
    return {};
  }

 private:
  // A query depends on its sequence and position, so that it is the same in every cut of the sequence.
  void name_queries_by_position() {
    const std::int64_t cols = heads_ * spec_.kv.head_dim;
    for (const kernels::Chunk& chunk : kv_.chunks())
      for (std::int32_t r = 0; r < chunk.rows; ++r) {
        const auto name = static_cast<std::uint64_t>(chunk.sequence * 100000 + chunk.first_position + r + 1);
        const std::vector<float> row = study::make_activations(name * 0xd1b54a32d192ed03ULL, 1, cols);
        for (std::int64_t i = 0; i < cols; ++i)
          queries_.at(chunk.first_row + r, i) = row[static_cast<std::size_t>(i)] * spec_.query_scale;
      }
  }

  AttentionSpec spec_;
  KvCase kv_;
  std::int32_t heads_;
  Rows queries_;
};

}  // namespace reprofuse
