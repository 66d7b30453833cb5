// The rotary part of config.json.
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/json.hpp"
#include "checkpoint/config.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr double kDefaultTheta = 10000.0;  // of all four families, in every version of transformers
constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;

struct KindName {
  RotaryKind kind;
  std::string_view name;
};

constexpr KindName kKindNames[] = {{RotaryKind::kPlain, "default"},
                                   {RotaryKind::kLinear, "linear"},
                                   {RotaryKind::kLlama3, "llama3"},
                                   {RotaryKind::kYarn, "yarn"}};

RotaryKind read_kind(JsonReader& block) {
  const auto rope_type = block.optional_string("rope_type");
  const auto type = block.optional_string("type");
  if (rope_type && type && *rope_type != *type)
    block.fail_value("type", Json(*type), fmt::format("rope_type '{}'", *rope_type));
  const std::string name = rope_type ? *rope_type : type.value_or("default");
  for (const KindName& known : kKindNames)
    if (known.name == name) return known.kind;
  block.fail_unsupported(rope_type ? "rope_type" : "type", Json(name));
}

// Python's `value or default`: what transformers does with null and with 0.
double number_or(JsonReader& block, std::string_view key, double default_value) {
  const double value = block.optional_number(key, 0, kMaxFactor).value_or(0);
  return value == 0 ? default_value : value;
}

void read_yarn(JsonReader& block, std::int64_t max_positions, RotaryConfig& rotary) {
  // Some versions of transformers put max_positions / original in the place of `factor`. The factor that the author
  // wrote counts here, as it does in the versions before and after.
  rotary.factor = block.number("factor", 1, kMaxFactor);
  rotary.original_max_positions =
      block.optional_integer("original_max_position_embeddings", 1, kMaxTokenCount).value_or(max_positions);
  rotary.beta_fast = number_or(block, "beta_fast", rotary.beta_fast);
  rotary.beta_slow = number_or(block, "beta_slow", rotary.beta_slow);
  rotary.truncate = block.optional_boolean("truncate").value_or(true);
  rotary.attention_factor = block.optional_number("attention_factor", 0, kMaxFactor);
  const double mscale = number_or(block, "mscale", 0);
  const double mscale_all_dim = number_or(block, "mscale_all_dim", 0);
  if (mscale == 0 || mscale_all_dim == 0) return;  // one alone has no effect
  rotary.mscale = mscale;
  rotary.mscale_all_dim = mscale_all_dim;
}

RotaryConfig read_block(JsonReader block, std::optional<double> theta, std::int64_t max_positions) {
  constexpr FixedValue kWholeHead[] = {{"partial_rotary_factor", "1.0"}};
  RotaryConfig rotary;
  rotary.kind = read_kind(block);
  const auto own_theta = block.optional_number("rope_theta", 1, kMaxTheta);
  if (theta && own_theta && *theta != *own_theta)
    block.fail_value("rope_theta", Json(*own_theta), fmt::format("the {} of rope_theta beside it", *theta));
  rotary.theta = own_theta ? *own_theta : theta.value_or(kDefaultTheta);
  switch (rotary.kind) {
    case RotaryKind::kPlain: break;
    case RotaryKind::kLinear: rotary.factor = block.number("factor", 1, kMaxFactor); break;
    case RotaryKind::kLlama3:
      rotary.factor = block.number("factor", 1, kMaxFactor);
      rotary.low_freq_factor = block.number("low_freq_factor", 0, kMaxFactor);
      rotary.high_freq_factor = block.number("high_freq_factor", 0, kMaxFactor);
      rotary.original_max_positions = block.integer("original_max_position_embeddings", 1, kMaxTokenCount);
      break;
    case RotaryKind::kYarn: read_yarn(block, max_positions, rotary); break;
  }
  block.allow_only(kWholeHead);
  block.refuse_the_rest();
  return rotary;
}

}  // namespace

RotaryConfig read_rotary(JsonReader& config, std::int64_t max_positions) {
  const auto theta = config.optional_number("rope_theta", 1, kMaxTheta);
  std::optional<RotaryConfig> rotary;
  for (const std::string_view key : {"rope_parameters", "rope_scaling"}) {
    const auto block = config.optional_object(key);
    if (!block) continue;
    const RotaryConfig read = read_block(*block, theta, max_positions);
    if (rotary && read != *rotary) config.fail_value(key, *config.find(key), "what rope_parameters says");
    rotary = read;
  }
  if (rotary) return *rotary;
  RotaryConfig plain;
  plain.theta = theta.value_or(kDefaultTheta);
  return plain;
}

void check_rotary(const RotaryConfig& rotary, const std::string& file) {
  const auto within = [&](const char* name, double value, double min, double max) {
    require(value >= min && value <= max, "{}: {} of the rotary embedding is {}, not from {} to {}", file, name, value,
            min, max);
  };
  within("theta", rotary.theta, 1, kMaxTheta);
  require(rotary.theta > 1, "{}: rope_theta is 1, which turns every dimension alike", file);
  within("factor", rotary.factor, 1, kMaxFactor);
  if (rotary.kind == RotaryKind::kLlama3 || rotary.kind == RotaryKind::kYarn)
    within("original_max_position_embeddings", static_cast<double>(rotary.original_max_positions), 1, kMaxTokenCount);
  if (rotary.kind == RotaryKind::kLlama3)
    require(rotary.low_freq_factor > 0 && rotary.low_freq_factor < rotary.high_freq_factor,
            "{}: low_freq_factor {} is not between 0 and high_freq_factor {}", file, rotary.low_freq_factor,
            rotary.high_freq_factor);
  if (rotary.kind == RotaryKind::kYarn) {
    require(rotary.beta_slow > 0 && rotary.beta_slow < rotary.beta_fast,
            "{}: beta_slow {} is not between 0 and beta_fast {}", file, rotary.beta_slow, rotary.beta_fast);
    require(!rotary.attention_factor || *rotary.attention_factor > 0, "{}: attention_factor is 0", file);
  }
}

Json rotary_to_json(const RotaryConfig& rotary) {
  Json block = Json::object();
  for (const KindName& known : kKindNames)
    if (known.kind == rotary.kind) block["rope_type"] = known.name;
  if (rotary.kind == RotaryKind::kPlain) return block;
  block["factor"] = rotary.factor;
  if (rotary.kind == RotaryKind::kLinear) return block;
  block["original_max_position_embeddings"] = rotary.original_max_positions;
  if (rotary.kind == RotaryKind::kLlama3) {
    block["low_freq_factor"] = rotary.low_freq_factor;
    block["high_freq_factor"] = rotary.high_freq_factor;
    return block;
  }
  block["beta_fast"] = rotary.beta_fast;
  block["beta_slow"] = rotary.beta_slow;
  block["truncate"] = rotary.truncate;
  if (rotary.attention_factor) block["attention_factor"] = *rotary.attention_factor;
  if (rotary.mscale) block["mscale"] = *rotary.mscale;
  if (rotary.mscale_all_dim) block["mscale_all_dim"] = *rotary.mscale_all_dim;
  return block;
}

}  // namespace reprofuse::checkpoint
