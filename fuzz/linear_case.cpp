#include "linear_case.hpp"

#include <fmt/format.h>

#include <bit>
#include <iterator>

#include "base/math.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::fuzz {
namespace {

constexpr std::int64_t kMaxM = 40;
constexpr std::int64_t kMaxN = 80;
constexpr std::int64_t kMaxWideN = 300;  // wider than any tile of a kernel; seldom, since it costs time
constexpr std::int64_t kMaxK = 1300;
constexpr std::int64_t kMaxPadding = 9;
constexpr std::int64_t kMaxOffset = 3;
constexpr std::int64_t kAlignment = 8;  // in elements: 16 bytes of every weight type, what vector loads need
constexpr int kMaxPlanted = 64;

// Reads the input front to back; past its end every draw is the lowest value.
class InputReader {
 public:
  explicit InputReader(std::span<const std::uint8_t> input) : input_(input) {}

  std::uint64_t word(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes && at_ < input_.size(); ++i) value |= std::uint64_t{input_[at_++]} << (8 * i);
    return value;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(word(2) % static_cast<std::uint64_t>(high - low + 1));
  }
  bool empty() const { return at_ >= input_.size(); }

 private:
  std::span<const std::uint8_t> input_;
  std::size_t at_ = 0;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {  // SplitMix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

struct Format {
  int mantissa;
  int exponent;

  std::uint32_t bias() const { return (1U << (exponent - 1)) - 1; }
  std::uint32_t largest_finite() const { return (1U << exponent) - 2; }
  int bits() const { return 1 + mantissa + exponent; }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return {7, 8};
    case DType::kF16: return {10, 5};
    case DType::kF32: break;
  }
  return {23, 8};
}

std::uint32_t draw_bits(ValueKind kind, Format format, Generator& generator) {
  const std::uint64_t word = generator.next();
  const auto sign = static_cast<std::uint32_t>(word & 1) << (format.bits() - 1);
  const auto mantissa = static_cast<std::uint32_t>(word >> 8) & ((1U << format.mantissa) - 1);
  const auto choice = static_cast<std::uint32_t>(word >> 40);
  const auto with_exponent = [&](std::uint32_t exponent) { return sign | exponent << format.mantissa | mantissa; };
  switch (kind) {
    case ValueKind::kOrdinary: return with_exponent(format.bias() - 4 + choice % 8);
    case ValueKind::kSubnormal: return sign | mantissa;
    case ValueKind::kHuge: return with_exponent(format.largest_finite() - choice % 4);
    case ValueKind::kZero: return sign;
    case ValueKind::kWide: return with_exponent(choice % (format.bias() + format.bias() / 3));
    case ValueKind::kMixed: break;
  }
  constexpr ValueKind kMixture[] = {ValueKind::kOrdinary, ValueKind::kSubnormal, ValueKind::kZero, ValueKind::kWide};
  return draw_bits(kMixture[choice % 4], format, generator);
}

// Huge values are drawn seldom, since an overflow anywhere leaves no bits to compare.
ValueKind draw_kind(InputReader& reader) {
  constexpr ValueKind kKinds[] = {ValueKind::kOrdinary,  ValueKind::kOrdinary,  ValueKind::kOrdinary, ValueKind::kWide,
                                  ValueKind::kWide,      ValueKind::kWide,      ValueKind::kMixed,    ValueKind::kMixed,
                                  ValueKind::kSubnormal, ValueKind::kSubnormal, ValueKind::kZero,     ValueKind::kHuge};
  return kKinds[reader.between(0, std::size(kKinds) - 1)];
}

std::uint32_t make_finite(std::uint32_t bits, Format format) {
  const std::uint32_t exponent = ((1U << format.exponent) - 1) << format.mantissa;
  return (bits & exponent) == exponent ? bits ^ (1U << format.mantissa) : bits;
}

std::vector<float> draw_floats(std::size_t count, ValueKind kind, Generator& generator) {
  std::vector<float> values(count);
  for (float& value : values) value = std::bit_cast<float>(draw_bits(kind, format_of(DType::kF32), generator));
  return values;
}

std::int64_t draw_stride(const LinearCase& drawn, InputReader& reader) {
  const std::int64_t stride = drawn.k + reader.between(0, kMaxPadding);
  return drawn.aligned ? round_up(stride, kAlignment) : stride;
}

FuzzOutput draw_output(const LinearCase& drawn, InputReader& reader, Generator& generator) {
  const bool wide = reader.between(0, 3) == 3;
  FuzzOutput output{.n = reader.between(1, wide ? kMaxWideN : kMaxN),
                    .weight_stride = draw_stride(drawn, reader),
                    .y_stride = 0,
                    .weight = {},
                    .bias = {}};
  output.y_stride = output.n + reader.between(0, kMaxPadding);
  const auto count = static_cast<std::size_t>(drawn.offset + output.n * output.weight_stride);
  output.weight.resize(count * dtype_bytes(drawn.dtype));
  for (std::size_t i = 0; i < count; ++i)
    store_weight(output.weight.data(), drawn.dtype, static_cast<std::int64_t>(i),
                 draw_bits(drawn.weight_kind, format_of(drawn.dtype), generator));
  if (reader.between(0, 1) == 1) output.bias = draw_floats(static_cast<std::size_t>(output.n), drawn.x_kind, generator);
  return output;
}

// What is left of the input names single values bit by bit, so that a coverage-guided fuzzer can reach any of them.
void plant_values(LinearCase& drawn, InputReader& reader) {
  for (int i = 0; i < kMaxPlanted && !reader.empty(); ++i) {
    const std::uint64_t place = reader.word(4);
    const auto bits = static_cast<std::uint32_t>(reader.word(4));
    if (place % 2 == 0) {
      drawn.x[place / 2 % drawn.x.size()] = std::bit_cast<float>(make_finite(bits, format_of(DType::kF32)));
      continue;
    }
    FuzzOutput& output = drawn.outputs[place / 2 % drawn.outputs.size()];
    const auto count = static_cast<std::uint64_t>(drawn.offset + output.n * output.weight_stride);
    store_weight(output.weight.data(), drawn.dtype, static_cast<std::int64_t>(place / 8 % count),
                 make_finite(bits, format_of(drawn.dtype)));
  }
}

}  // namespace

LinearCase draw_case(std::span<const std::uint8_t> input) {
  InputReader reader(input);
  LinearCase drawn{};
  drawn.m = reader.between(1, kMaxM);
  drawn.aligned = reader.between(0, 1) == 1;
  drawn.k = reader.between(1, kMaxK);
  if (drawn.aligned) drawn.k = round_up(drawn.k, kAlignment);
  drawn.x_stride = draw_stride(drawn, reader);
  drawn.offset = drawn.aligned ? 0 : reader.between(0, kMaxOffset);
  drawn.dtype = static_cast<DType>(reader.between(0, 2));
  drawn.threads = static_cast<int>(reader.between(1, 4));
  drawn.x_kind = draw_kind(reader);
  drawn.weight_kind = draw_kind(reader);
  drawn.seed = reader.word(8);
  Generator generator(drawn.seed);
  drawn.x = draw_floats(static_cast<std::size_t>(drawn.offset + drawn.m * drawn.x_stride), drawn.x_kind, generator);
  const std::int64_t outputs = reader.between(1, 3);
  for (std::int64_t i = 0; i < outputs; ++i) drawn.outputs.push_back(draw_output(drawn, reader, generator));
  plant_values(drawn, reader);
  return drawn;
}

std::string LinearCase::description() const {
  constexpr const char* kNames[] = {"ordinary", "subnormal", "huge", "zero", "wide", "mixed"};
  std::string text =
      fmt::format("m = {}, k = {}, x stride {}, offset {}, {} weights, {} threads, x {}, weights {}, seed {:#x}", m, k,
                  x_stride, offset, dtype_name(dtype), threads, kNames[static_cast<int>(x_kind)],
                  kNames[static_cast<int>(weight_kind)], seed);
  for (const FuzzOutput& output : outputs)
    text += fmt::format("; output n = {}, weight stride {}, y stride {}, {}", output.n, output.weight_stride,
                        output.y_stride, output.bias.empty() ? "no bias" : "bias");
  return text;
}

}  // namespace reprofuse::fuzz
