#include "checkpoint/generation_config.hpp"

#include <nlohmann/json.hpp>

#include "checkpoint/config_keys.hpp"
#include "checkpoint/json_reader.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr double kMaxScale = 1e6;
constexpr std::int64_t kMaxTokens = 1 << 30;

// For values that divide, or leave nothing to choose from, when they are zero.
std::optional<double> optional_positive(JsonReader& reader, std::string_view key, double max) {
  const auto value = reader.optional_number(key, 0, max);
  if (value == 0.0) reader.fail_value(key, *reader.find(key), "positive");
  return value;
}

}  // namespace

GenerationConfig parse_generation_config(std::string_view json, const std::string& file, std::int64_t vocab_size) {
  const Json root = parse_json_object(json, file);
  JsonReader reader(root, file);
  GenerationConfig config;
  config.do_sample = reader.optional_boolean("do_sample");
  config.temperature = reader.optional_number("temperature", 0, kMaxScale);
  config.top_k = reader.optional_integer("top_k", 0, kMaxTokens);
  config.top_p = optional_positive(reader, "top_p", 1);
  config.min_p = reader.optional_number("min_p", 0, 1);
  config.repetition_penalty = optional_positive(reader, "repetition_penalty", kMaxScale);
  config.max_new_tokens = reader.optional_integer("max_new_tokens", 1, kMaxTokens);
  config.max_length = reader.optional_integer("max_length", 1, kMaxTokens);
  config.bos_token = reader.optional_integer("bos_token_id", 0, vocab_size - 1);
  config.eos_tokens = reader.integers("eos_token_id", 0, vocab_size - 1);
  config.pad_token = reader.optional_integer("pad_token_id", 0, vocab_size - 1);
  reader.ignore(kHarmlessGenerationKeys);
  reader.allow_only(kFixedGenerationValues);
  reader.refuse_the_rest();
  return config;
}

}  // namespace reprofuse::checkpoint
