// How positions turn queries and keys: what a model's author says of it, and the tables that follow. NUMERICS.md
// defines every bit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reprofuse/export.hpp"

namespace reprofuse {

enum class RotaryKind : std::uint8_t {
  kPlain,   // frequency i is theta^(-2i / head_dim)
  kLinear,  // every frequency divided by `factor`
  kLlama3,  // Llama 3.1: long wavelengths divided by `factor`, short ones kept, a ramp between them
  kYarn,    // YaRN: a ramp over dimensions, and cos and sin multiplied by an attention factor
};

// Checkpoint::rotary() gives that of a config.json, with the defaults of its family.
struct RotaryConfig {
  RotaryKind kind = RotaryKind::kPlain;
  double theta = 10000.0;  // above 1

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

// Rows [0, positions) of cos and sin for RotaryCall, in host memory.
struct RotaryTable {
  std::vector<float> cos, sin;  // [positions, head_dim / 2]
};

// Up to 2^20 positions. Throws kInvalidArgument for a head_dim that is not even, or a value outside its range.
REPROFUSE_API RotaryTable rotary_table(const RotaryConfig& config, std::int64_t head_dim, std::int64_t positions);

}  // namespace reprofuse
