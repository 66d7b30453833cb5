// What a ModelConfig must satisfy, whether a file was read or a program filled it in.
#include <algorithm>

#include "base/check.hpp"
#include "checkpoint/architecture.hpp"
#include "checkpoint/config_keys.hpp"
#include "checkpoint/config_rotary.hpp"

namespace reprofuse::checkpoint {
namespace {

void check_sizes(const ModelConfig& config, const std::string& file) {
  const auto check = [&](const SizeKey& size) {
    const std::int64_t value = config.*size.field;
    require(value >= 1 && value <= size.max, "{}: {} is {}, not from 1 to {}", file, size.key, value, size.max);
  };
  std::for_each(std::begin(kSizeKeys), std::end(kSizeKeys), check);
  check(kKvHeadsKey);
  check(kHeadDimKey);
  require(config.heads % config.kv_heads == 0, "{}: num_attention_heads {} is no multiple of num_key_value_heads {}",
          file, config.heads, config.kv_heads);
  require(config.head_dim % 2 == 0, "{}: head_dim {} is odd, and rotary embedding turns pairs", file, config.head_dim);
}

void check_windows(const ModelConfig& config, const ArchitectureTraits& traits, const std::string& file) {
  require(static_cast<std::int64_t>(config.layer_windows.size()) == config.layers, "{}: {} windows for {} layers", file,
          config.layer_windows.size(), config.layers);
  std::int64_t shared = 0;
  for (const std::int64_t window : config.layer_windows) {
    require(window >= 0 && window <= kMaxWindow, "{}: a window of {} positions", file, window);
    require(window == 0 || shared == 0 || window == shared, "{}: windows of {} and of {} positions in one model", file,
            shared, window);
    shared = std::max(shared, window);
  }
  const auto full = std::count(config.layer_windows.begin(), config.layer_windows.end(), 0);
  require(traits.window != WindowRule::kNever || shared == 0, "{}: {} has no sliding window", file, traits.name);
  require(traits.window != WindowRule::kEveryLayer || shared == 0 || full == 0,
          "{}: {} has a sliding window in every layer or in none", file, traits.name);
}

void check_switches(const ModelConfig& config, const ArchitectureTraits& traits, const std::string& file) {
  const bool qkv_only = traits.attention_bias == BiasRule::kQkvOnly;
  require(
      config.qkv_bias == (qkv_only || config.o_bias) && (traits.attention_bias == BiasRule::kByKey || !config.o_bias),
      "{}: {} has no such attention biases: qkv {}, o {}", file, traits.name, config.qkv_bias, config.o_bias);
  require(traits.mlp_bias_by_key || !config.mlp_bias, "{}: {} has no mlp_bias", file, traits.name);
  require(config.qk_norm == traits.qk_norm, "{}: {} {} norms of q and k", file, traits.name,
          traits.qk_norm ? "has" : "has no");
}

}  // namespace

void check_config(const ModelConfig& config, const std::string& file) {
  const ArchitectureTraits& traits = traits_of(config.architecture);
  check_sizes(config, file);
  check_switches(config, traits, file);
  check_windows(config, traits, file);
  check_rotary(config.rotary, file);
  require(config.rms_norm_eps_f32() > 0 && config.rms_norm_eps < 1, "{}: rms_norm_eps is {}, not between 0 and 1", file,
          config.rms_norm_eps);
  const auto in_vocabulary = [&](std::int64_t id) { return id >= 0 && id < config.vocab_size; };
  require(!config.bos_token || in_vocabulary(*config.bos_token), "{}: bos_token_id {} is not in a vocabulary of {}",
          file, config.bos_token.value_or(0), config.vocab_size);
  for (const std::int64_t id : config.eos_tokens)
    require(in_vocabulary(id), "{}: eos_token_id {} is not in a vocabulary of {}", file, id, config.vocab_size);
}

}  // namespace reprofuse::checkpoint
