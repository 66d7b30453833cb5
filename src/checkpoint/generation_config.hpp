// What generation_config.json says about choosing tokens. What it does not say stays empty: the caller decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprofuse::checkpoint {

struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // >= 0
  std::optional<std::int64_t> top_k;         // 0: all
  std::optional<double> top_p;               // in (0, 1]
  std::optional<double> min_p;               // in [0, 1]
  std::optional<double> repetition_penalty;  // > 0
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::int64_t> max_length;  // prompt and answer together
  std::optional<std::int64_t> bos_token;
  std::optional<std::int64_t> pad_token;
  std::vector<std::int64_t> eos_tokens;

  bool operator==(const GenerationConfig&) const = default;
};

// `file` appears in error messages; token ids must be below vocab_size.
GenerationConfig parse_generation_config(std::string_view json, const std::string& file, std::int64_t vocab_size);

}  // namespace reprofuse::checkpoint
