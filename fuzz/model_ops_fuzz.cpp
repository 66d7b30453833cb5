// Draws transformer operations from bytes: shapes, pages, chunks, windows, threads and bit patterns. Every instruction
// set must give the reference's bits, in results, in pages and in the place of a failure.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "bytes_target.hpp"
#include "kernels/cpu/model_ops.hpp"
#include "kernels/reference/model_ops.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::fuzz {
namespace {

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

constexpr std::int64_t kTopExponent = 190;  // squares and products of these may overflow

struct Shape {
  std::int32_t kv_heads;
  std::int32_t group;
  std::int32_t head_dim;
  std::int32_t page_size;
  std::int32_t window;
  DType dtype;
  bool norm;
  int threads;
  std::vector<kernels::Chunk> chunks;

  std::string description() const {
    std::string text = fmt::format("kv heads {} group {} head_dim {} page {} window {} {} norm {} threads {} chunks",
                                   kv_heads, group, head_dim, page_size, window, dtype_name(dtype), norm, threads);
    for (const kernels::Chunk& chunk : chunks) text += fmt::format(" {}+{}", chunk.first_position, chunk.rows);
    return text;
  }
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

// What the operations read and write: copied for every implementation.
struct State {
  std::vector<float> q, k, v, out, gate;
  std::vector<std::byte> keys, values;
  std::optional<kernels::Place> failure;
};

struct Case {
  Shape shape{};
  std::vector<std::int32_t> positions, sequences, page_table;
  std::int32_t pages_per_sequence = 0;
  std::int32_t max_keys = 0;
  std::vector<float> norms, weights, angles;
  State start;

  std::int64_t q_cols() const { return std::int64_t{shape.kv_heads} * shape.group * shape.head_dim; }
  std::int64_t k_cols() const { return std::int64_t{shape.kv_heads} * shape.head_dim; }
  std::int64_t rows() const { return static_cast<std::int64_t>(positions.size()); }

  kernels::Batch batch() const {
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

  kernels::RotaryCall rotary(State& state) const {
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

  kernels::AttentionCall attention(State& state) const {
    return {.q = {state.q.data(), rows(), q_cols(), q_cols()},
            .kv = pages(state),
            .batch = batch(),
            .heads = shape.kv_heads * shape.group,
            .scale = 0.11F,
            .window = shape.window,
            .out = {state.out.data(), rows(), q_cols(), q_cols()},
            .workspace = nullptr};
  }

  kernels::SiluGateCall silu_gate(State& state) const {
    return {.gate = {state.gate.data(), rows(), q_cols(), q_cols()},
            .up = {state.q.data(), rows(), q_cols(), q_cols()},
            .y = {state.gate.data(), rows(), q_cols(), q_cols()}};
  }

  kernels::RmsNormCall rms_norm(State& state) const {
    return {.x = {state.q.data(), rows(), q_cols(), q_cols()},
            .delta = {state.out.data(), rows(), q_cols(), q_cols()},
            .weight = weights.data(),
            .eps = 1e-5F,
            .y = {state.gate.data(), rows(), q_cols(), q_cols()}};
  }

 private:
  kernels::KvPages pages(State& state) const {
    return {.keys = state.keys.data(),
            .values = state.values.data(),
            .dtype = shape.dtype,
            .kv_heads = shape.kv_heads,
            .head_dim = shape.head_dim,
            .page_size = shape.page_size};
  }
};

Case draw_case(std::span<const std::uint8_t> input) {
  Draw draw(input);
  Case drawn;
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
  drawn.norms = draw.numbers(2 * shape.head_dim, kTopExponent);
  drawn.weights = draw.numbers(drawn.q_cols(), kTopExponent);
  drawn.angles = draw.numbers(std::int64_t{drawn.max_keys} * shape.head_dim, 127);
  State& start = drawn.start;
  start.q = draw.numbers(drawn.rows() * drawn.q_cols(), kTopExponent);
  start.k = draw.numbers(drawn.rows() * drawn.k_cols(), kTopExponent);
  start.v = draw.numbers(drawn.rows() * drawn.k_cols(), kTopExponent);
  start.gate = draw.numbers(drawn.rows() * drawn.q_cols(), kTopExponent);
  start.out.assign(start.q.size(), 0.0F);
  // As BF16, an element is half a number: of no kind in particular, and finite as often as not.
  const std::int64_t elements = std::int64_t{pages} * drawn.k_cols() * shape.page_size;
  for (std::vector<std::byte>* memory : {&start.keys, &start.values}) {
    const std::vector<float> numbers = draw.numbers(elements, kTopExponent);
    memory->resize(static_cast<std::size_t>(elements) * dtype_bytes(shape.dtype));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto word = std::bit_cast<std::uint32_t>(numbers[i]);
      const auto half = static_cast<std::uint16_t>(word >> 16);
      if (shape.dtype == DType::kF32)
        std::memcpy(memory->data() + 4 * i, &word, sizeof(word));
      else
        std::memcpy(memory->data() + 2 * i, &half, sizeof(half));
    }
  }
  return drawn;
}

// After a failed attention nothing else is computed: its result is not defined.
State run_reference(const Case& drawn) {
  State state = drawn.start;
  reference::rotary(drawn.rotary(state));
  state.failure = reference::attention(drawn.attention(state));
  if (state.failure) return state;
  reference::silu_gate(drawn.silu_gate(state));
  state.failure = reference::rms_norm(drawn.rms_norm(state));
  return state;
}

State run_cpu(const Case& drawn, const kernels::CpuBackend& backend, bool workspace) {
  State state = drawn.start;
  cpu::rotary(backend, drawn.rotary(state));
  kernels::AttentionCall attention = drawn.attention(state);
  std::vector<std::byte> memory(workspace ? cpu::attention_workspace_bytes(attention) : 0);
  attention.workspace = workspace ? memory.data() : nullptr;
  state.failure = cpu::attention(backend, attention);
  if (state.failure) return state;
  cpu::silu_gate(backend, drawn.silu_gate(state));
  state.failure = cpu::rms_norm(backend, drawn.rms_norm(state));
  return state;
}

// The payload and sign of a NaN are nobody's promise.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) || (x != x && y != y);
  });
}

std::optional<std::string_view> difference(const State& got, const State& expected) {
  const auto place = [](const State& state) {
    return state.failure ? std::pair(state.failure->row, state.failure->column)
                         : std::pair<std::int64_t, std::int64_t>(-1, -1);
  };
  if (!same_bits(got.q, expected.q) && !expected.failure) return "queries";
  if (got.keys != expected.keys) return "keys";
  if (got.values != expected.values) return "values";
  if (place(got) != place(expected)) return "places of failure";
  if (expected.failure) return std::nullopt;
  if (!same_bits(got.out, expected.out)) return "attention";
  if (!same_bits(got.gate, expected.gate)) return "norms";
  return std::nullopt;
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  const Case drawn = draw_case(input);
  const State expected = run_reference(drawn);
  ThreadPool pool(drawn.shape.threads);
  for (const Isa isa : supported_isas())
    for (const bool workspace : {false, true}) {
      State got = run_cpu(drawn, {.isa = isa, .pool = &pool, .name = "fuzz"}, workspace);
      if (sabotage == Sabotage::kAlterResult) got.keys.back() ^= std::byte{1};
      if (const auto what = difference(got, expected))
        return {.accepted = true,
                .violation = fmt::format("{} differ on {}, workspace {}: {}", *what, isa_name(isa), workspace,
                                         drawn.shape.description())};
    }
  return {.accepted = true, .violation = std::nullopt};
}

// Long enough that every draw has bytes of its own; mutation does the rest.
std::vector<Bytes> valid_inputs() {
  std::vector<Bytes> inputs;
  for (std::uint32_t seed = 1; seed <= 64; ++seed) {
    Bytes bytes;
    for (std::uint32_t i = 0, state = seed * 2654435761U; i < 96; ++i, state = state * 1664525U + 1013904223U)
      bytes.push_back(static_cast<std::uint8_t>(state >> 24));
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

// Draws of two bytes each: the lowest value, and one that is as good as any.
std::vector<std::string_view> telling_tokens() {
  return {std::string_view("\0\0", 2), "\x12\x34"};
}

bool takes_every_input() {
  return true;
}

void repair(Bytes&) {}

}  // namespace reprofuse::fuzz
