#include "model_ops_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/math.hpp"

namespace reprofuse::fuzz {
namespace {

constexpr std::int64_t kTopExponent = 190;  // squares and products of these may overflow

// Reads the input front to back; past its end every draw is the lowest value.
class Draw {
 public:
  explicit Draw(std::span<const std::uint8_t> input) : input_(input) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    const std::uint64_t word = std::uint64_t{byte()} << 8 | byte();
    return low + static_cast<std::int64_t>(word % static_cast<std::uint64_t>(high - low + 1));
  }

  // Finite numbers of one kind: near 1, of any exponent up to `top`, or subnormals and zeros.
  std::vector<float> numbers(std::int64_t count, std::int64_t top) {
    const std::int64_t kind = between(0, 3);
    std::uint64_t state = static_cast<std::uint64_t>(between(0, 65535)) << 16 | byte();
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const auto word = static_cast<std::uint32_t>(state >> 32);
      const std::uint32_t near = 120 + (word >> 23 & 7);
      const std::uint32_t any = (word >> 23 & 255) % static_cast<std::uint32_t>(top);
      const std::uint32_t exponent = kind == 2 ? any : kind == 3 && word % 3 == 0 ? 0 : near;
      value = std::bit_cast<float>((word & 0x80000000U) | exponent << 23 | (word & 0x7fffffU));
    }
    return values;
  }

 private:
  std::uint8_t byte() { return at_ < input_.size() ? input_[at_++] : 0; }

  std::span<const std::uint8_t> input_;
  std::size_t at_ = 0;
};

Shape draw_shape(Draw& draw) {
  Shape shape{.kv_heads = static_cast<std::int32_t>(draw.between(1, 2)),
              .group = static_cast<std::int32_t>(draw.between(1, 9)),
              .head_dim = static_cast<std::int32_t>(2 * draw.between(1, 66)),
              .page_size = 16 << draw.between(0, 4),
              .window = static_cast<std::int32_t>(std::max<std::int64_t>(0, draw.between(-100, 200))),
              .dtype = draw.between(0, 1) == 0 ? DType::kF32 : DType::kBF16,
              .norm = draw.between(0, 1) == 1,
              .threads = static_cast<int>(draw.between(1, 3)),
              .chunks = {}};
  std::int32_t rows = 0;
  for (std::int64_t left = draw.between(1, 3); left > 0; --left) {
    const auto count = static_cast<std::int32_t>(draw.between(0, 3) == 0 ? draw.between(1, 70) : draw.between(1, 3));
    shape.chunks.push_back({.first_row = rows,
                            .rows = count,
                            .first_position = static_cast<std::int32_t>(draw.between(0, 300)),
                            .sequence = static_cast<std::int32_t>(shape.chunks.size())});
    rows += count;
  }
  return shape;
}

// As BF16, an element is half a number: of no kind in particular, and finite as often as not.
std::vector<std::byte> draw_pages(std::int64_t elements, DType dtype, Draw& draw) {
  const std::vector<float> numbers = draw.numbers(elements, kTopExponent);
  std::vector<std::byte> memory(static_cast<std::size_t>(elements) * dtype_bytes(dtype));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto word = std::bit_cast<std::uint32_t>(numbers[i]);
    const auto half = static_cast<std::uint16_t>(word >> 16);
    if (dtype == DType::kF32)
      std::memcpy(memory.data() + 4 * i, &word, sizeof(word));
    else
      std::memcpy(memory.data() + 2 * i, &half, sizeof(half));
  }
  return memory;
}

}  // namespace

std::string Shape::description() const {
  std::string text = fmt::format("kv heads {} group {} head_dim {} page {} window {} {} norm {} threads {} chunks",
                                 kv_heads, group, head_dim, page_size, window, dtype_name(dtype), norm, threads);
  for (const kernels::Chunk& chunk : chunks) text += fmt::format(" {}+{}", chunk.first_position, chunk.rows);
  return text;
}

kernels::Batch ModelOpsCase::batch() const {
  return {.rows = static_cast<std::int32_t>(rows()),
          .chunk_count = static_cast<std::int32_t>(shape.chunks.size()),
          .max_chunk_rows = 70,
          .max_keys = max_keys,
          .tokens = nullptr,
          .positions = positions.data(),
          .sequences = sequences.data(),
          .chunks = shape.chunks.data(),
          .page_table = page_table.data(),
          .page_table_stride = pages_per_sequence};
}

kernels::RotaryCall ModelOpsCase::rotary(State& state) const {
  const float* q_norm = shape.norm ? norms.data() : nullptr;
  return {.q = {state.q.data(), rows(), q_cols(), q_cols()},
          .k = {state.k.data(), rows(), k_cols(), k_cols()},
          .v = {state.v.data(), rows(), k_cols(), k_cols()},
          .q_norm = q_norm,
          .k_norm = shape.norm ? q_norm + shape.head_dim : nullptr,
          .eps = 1e-5F,
          .cos = angles.data(),
          .sin = angles.data() + angles.size() / 2,
          .batch = batch(),
          .kv = pages(state)};
}

kernels::AttentionCall ModelOpsCase::attention(State& state) const {
  return {.q = {state.q.data(), rows(), q_cols(), q_cols()},
          .kv = pages(state),
          .batch = batch(),
          .heads = shape.kv_heads * shape.group,
          .scale = 0.11F,
          .window = shape.window,
          .out = {state.out.data(), rows(), q_cols(), q_cols()}};
}

kernels::SiluGateCall ModelOpsCase::silu_gate(State& state) const {
  return {.gate = {state.gate.data(), rows(), q_cols(), q_cols()},
          .up = {state.q.data(), rows(), q_cols(), q_cols()},
          .y = {state.gate.data(), rows(), q_cols(), q_cols()}};
}

kernels::RmsNormCall ModelOpsCase::rms_norm(State& state) const {
  return {.x = {state.q.data(), rows(), q_cols(), q_cols()},
          .delta = {state.out.data(), rows(), q_cols(), q_cols()},
          .weight = weights.data(),
          .eps = 1e-5F,
          .y = {state.gate.data(), rows(), q_cols(), q_cols()}};
}

kernels::KvPages ModelOpsCase::pages(State& state) const {
  return {.keys = state.keys.data(),
          .values = state.values.data(),
          .dtype = shape.dtype,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .page_size = shape.page_size};
}

ModelOpsCase draw_model_ops_case(std::span<const std::uint8_t> input) {
  Draw draw(input);
  ModelOpsCase drawn;
  drawn.shape = draw_shape(draw);
  const Shape& shape = drawn.shape;
  for (const kernels::Chunk& chunk : shape.chunks) {
    drawn.max_keys = std::max(drawn.max_keys, chunk.first_position + chunk.rows);
    for (std::int32_t r = 0; r < chunk.rows; ++r) {
      drawn.positions.push_back(chunk.first_position + r);
      drawn.sequences.push_back(chunk.sequence);
    }
  }
  // Page p of the table is page (p * odd) mod a power of two: a permutation.
  drawn.pages_per_sequence = ceil_div(drawn.max_keys, shape.page_size);
  const auto count =
      static_cast<std::uint32_t>(drawn.pages_per_sequence) * static_cast<std::uint32_t>(shape.chunks.size());
  const std::uint32_t pages = std::bit_ceil(count);
  const auto odd = static_cast<std::uint32_t>(2 * draw.between(0, 100) + 1);
  for (std::uint32_t p = 0; p < count; ++p) drawn.page_table.push_back(static_cast<std::int32_t>(p * odd % pages));
  drawn.norms = draw.numbers(std::int64_t{2} * shape.head_dim, kTopExponent);
  drawn.weights = draw.numbers(drawn.q_cols(), kTopExponent);
  drawn.angles = draw.numbers(std::int64_t{drawn.max_keys} * shape.head_dim, 127);
  State& start = drawn.start;
  start.q = draw.numbers(drawn.rows() * drawn.q_cols(), kTopExponent);
  start.k = draw.numbers(drawn.rows() * drawn.k_cols(), kTopExponent);
  start.v = draw.numbers(drawn.rows() * drawn.k_cols(), kTopExponent);
  start.gate = draw.numbers(drawn.rows() * drawn.q_cols(), kTopExponent);
  start.out.assign(start.q.size(), 0.0F);
  const std::int64_t elements = std::int64_t{pages} * drawn.k_cols() * shape.page_size;
  start.keys = draw_pages(elements, shape.dtype, draw);
  start.values = draw_pages(elements, shape.dtype, draw);
  return drawn;
}

}  // namespace reprofuse::fuzz
