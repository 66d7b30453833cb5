// Rotary position embeddings: frequencies by the formulas of the model families, cos and sin by double_math.hpp.
// NUMERICS.md defines every bit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprofuse {

// What a rotary table is built from. Values are as the model's author wrote them: which defaults apply has been decided
// where the file was read, and what they mean is computed where the table is built.
enum class RotaryKind : std::uint8_t {
  kPlain,   // frequency i is theta^(-2i / head_dim)
  kLinear,  // every frequency divided by `factor`
  kLlama3,  // Llama 3.1: long wavelengths divided by `factor`, short ones kept, a ramp between them
  kYarn,    // YaRN: a ramp over dimensions, and cos and sin multiplied by an attention factor
};

struct RotaryConfig {
  RotaryKind kind = RotaryKind::kPlain;
  double theta = 10000.0;

  double factor = 1.0;                      // kLinear, kLlama3, kYarn: >= 1
  std::int64_t original_max_positions = 0;  // kLlama3, kYarn: the context the model was first trained at, > 0

  double low_freq_factor = 1.0;   // kLlama3: below high_freq_factor
  double high_freq_factor = 1.0;  // kLlama3

  double beta_fast = 32.0;  // kYarn: rotations above which a dimension is kept as it is
  double beta_slow = 1.0;   // kYarn: rotations below which a dimension is divided by `factor`
  bool truncate = true;     // kYarn: the ends of the ramp are whole dimensions
  std::optional<double> attention_factor =
      std::nullopt;  // kYarn: multiplies cos and sin; when absent it follows from the next two
  // kYarn: with both, (0.1 mscale ln f + 1) / (0.1 mscale_all_dim ln f + 1), else 0.1 ln f + 1; 1 where f <= 1.
  std::optional<double> mscale = std::nullopt;
  std::optional<double> mscale_all_dim = std::nullopt;

  bool operator==(const RotaryConfig&) const = default;
};

inline constexpr std::int64_t kMaxRotaryPositions = std::int64_t{1} << 20;

struct RotaryTables {
  std::vector<float> inverse_frequencies;  // [head_dim / 2]
  double attention_factor = 1.0;           // multiplies cos and sin
  std::vector<float> cos, sin;             // [positions, head_dim / 2]

  std::int64_t width() const { return static_cast<std::int64_t>(inverse_frequencies.size()); }
  std::int64_t positions() const { return width() == 0 ? 0 : static_cast<std::int64_t>(cos.size()) / width(); }
};

// Throws kInvalidArgument for a head_dim that is not even or a value of `config` outside its range.
std::vector<float> rotary_inverse_frequencies(const RotaryConfig& config, std::int64_t head_dim);
double rotary_attention_factor(const RotaryConfig& config);

// Rows of the tables for positions [begin, begin + cos.size() / width), at most kMaxRotaryPositions.
void rotary_rows(const RotaryTables& tables, std::int64_t begin, std::span<float> cos, std::span<float> sin);

RotaryTables make_rotary_tables(const RotaryConfig& config, std::int64_t head_dim, std::int64_t positions);

// Appends rows until there are `positions`; the rows already there stay as they are.
void extend_rotary_tables(RotaryTables& tables, std::int64_t positions);

}  // namespace reprofuse
