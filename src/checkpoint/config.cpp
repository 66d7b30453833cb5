#include "checkpoint/config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.hpp"
#include "base/json.hpp"
#include "numerics/rotary.hpp"
#include "numerics/sampling.hpp"

namespace reprofuse::checkpoint {
namespace {

// The keys of config.json that need no thought, listed so that every other one gets some.
struct SizeKey {
  std::string_view key;
  std::int64_t ModelConfig::*field;
  std::int64_t max;  // of numerics, or far above any model, so that nothing derived from a hostile file overflows
};

// Sizes that every family states.
constexpr SizeKey kSizeKeys[] = {
    {"vocab_size", &ModelConfig::vocab_size, sampling::kMaxVocabulary},
    {"hidden_size", &ModelConfig::hidden_size, 1 << 20},
    {"intermediate_size", &ModelConfig::intermediate_size, 1 << 22},
    {"num_hidden_layers", &ModelConfig::layers, 1 << 12},
    {"num_attention_heads", &ModelConfig::heads, 1 << 12},
    {"max_position_embeddings", &ModelConfig::max_positions, kMaxRotaryPositions},
};
constexpr SizeKey kKvHeadsKey = {"num_key_value_heads", &ModelConfig::kv_heads, 1 << 12};
constexpr SizeKey kHeadDimKey = {"head_dim", &ModelConfig::head_dim, 1 << 12};

// Training, caching, bookkeeping and library internals: nothing that an answer depends on.
constexpr std::string_view kHarmlessModelKeys[] = {
    "_attn_implementation", "_attn_implementation_autoset",
    "_commit_hash",         "_name_or_path",
    "attention_dropout",    "attn_implementation",
    "embd_pdrop",           "gradient_checkpointing",
    "hidden_dropout",       "id2label",
    "initializer_range",    "is_decoder",
    "is_llama_config",      "label2id",
    "output_attentions",    "output_hidden_states",
    "pad_token_id",         "pretraining_tp",
    "problem_type",         "resid_pdrop",
    "return_dict",          "tokenizer_class",
    "torchscript",          "transformers_version",
    "unk_token_id",         "unsloth_fixed",
    "unsloth_version",      "use_cache",
};

// Features that checkpoints switch off by name.
constexpr FixedValue kFixedModelValues[] = {
    {"add_cross_attention", "false"},
    {"auto_map", "null"},
    {"attention_chunk_size", "null"},
    {"chunk_size_feed_forward", "0"},
    {"cross_attention_hidden_size", "null"},
    {"hidden_act", R"("silu")"},
    {"is_encoder_decoder", "false"},
    {"partial_rotary_factor", "1.0"},
    {"pruned_heads", "{}"},
    {"quantization_config", "null"},
    {"rope_interleaved", "false"},
    {"task_specific_params", "null"},
    {"use_mrope", "false"},
};

const ArchitectureTraits& read_architecture(JsonReader& reader) {
  const auto names = reader.optional_strings("architectures");
  if (!names) reader.fail_missing("architectures");
  for (const ArchitectureTraits& traits : architectures()) {
    if (*names != std::vector<std::string>{std::string(traits.name)}) continue;
    const auto model_type = reader.optional_string("model_type");
    if (model_type && *model_type != traits.model_type)
      reader.fail_value("model_type", Json(*model_type),
                        fmt::format("'{}', as {} has it", traits.model_type, traits.name));
    return traits;
  }
  reader.fail_unsupported("architectures", *reader.find("architectures"));
}

void read_sizes(JsonReader& reader, const ArchitectureTraits& traits, ModelConfig& config) {
  for (const SizeKey& size : kSizeKeys) config.*size.field = reader.integer(size.key, 1, size.max);

  if (traits.needs_kv_heads && !reader.has(kKvHeadsKey.key)) reader.fail_missing(kKvHeadsKey.key);
  config.kv_heads = reader.optional_integer(kKvHeadsKey.key, 1, kKvHeadsKey.max).value_or(config.heads);

  const auto head_dim = reader.optional_integer(kHeadDimKey.key, 1, kHeadDimKey.max);
  if (traits.needs_head_dim && !head_dim) reader.fail_missing(kHeadDimKey.key);
  if (!head_dim)
    require(config.hidden_size % config.heads == 0,
            "{}: hidden_size {} is no multiple of num_attention_heads {}, and head_dim is not given", reader.file(),
            config.hidden_size, config.heads);
  config.head_dim = head_dim.value_or(config.hidden_size / config.heads);
}

std::optional<DType> read_dtype(JsonReader& reader, std::string_view key) {
  const auto name = reader.optional_string(key);
  if (!name) return std::nullopt;
  if (*name == "bfloat16") return DType::kBF16;
  if (*name == "float16") return DType::kF16;
  if (*name == "float32") return DType::kF32;
  reader.fail_unsupported(key, Json(*name));
}

std::optional<DType> read_dtype(JsonReader& reader) {
  const auto dtype = read_dtype(reader, "dtype");
  const auto torch_dtype = read_dtype(reader, "torch_dtype");
  if (dtype && torch_dtype && *dtype != *torch_dtype)
    reader.fail_value("torch_dtype", *reader.find("torch_dtype"), "what dtype says");
  return dtype ? dtype : torch_dtype;
}

// A key that this family does not look at must not say anything else than what the family does.
bool read_flag(JsonReader& reader, std::string_view key, bool counts) {
  const bool value = reader.optional_boolean(key).value_or(false);
  if (value && !counts) reader.fail_unsupported(key, Json(true));
  return value;
}

void read_biases(JsonReader& reader, const ArchitectureTraits& traits, ModelConfig& config) {
  config.mlp_bias = read_flag(reader, "mlp_bias", traits.mlp_bias_by_key);
  if (traits.attention_bias == BiasRule::kQkvOnly) {
    config.qkv_bias = true;  // and attention_bias is refused with the unknown keys: it would mean o as well
    return;
  }
  config.qkv_bias = read_flag(reader, "attention_bias", traits.attention_bias == BiasRule::kByKey);
  config.o_bias = config.qkv_bias;
}

// The layers that look through the window, by their names or by the first of them.
std::vector<bool> read_sliding_layers(JsonReader& reader, const ModelConfig& config, bool use_window) {
  const auto layers = static_cast<std::size_t>(config.layers);
  const auto first = reader.optional_integer("max_window_layers", 0, INT32_MAX);
  const auto types = reader.optional_strings("layer_types");
  std::vector<bool> sliding(layers, false);
  if (!types) {
    if (use_window && !first) reader.fail_missing("max_window_layers");
    for (std::size_t i = 0; use_window && i < layers; ++i) sliding[i] = static_cast<std::int64_t>(i) >= *first;
    return sliding;
  }
  require(types->size() == layers, "{}: layer_types has {} entries for {} layers", reader.file(), types->size(),
          layers);
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string& type = (*types)[i];
    if (type != "full_attention" && type != "sliding_attention") reader.fail_unsupported("layer_types", Json(type));
    sliding[i] = type == "sliding_attention";
    require(!sliding[i] || use_window, "{}: layer_types has 'sliding_attention', but no window is in use",
            reader.file());
  }
  return sliding;
}

void read_windows(JsonReader& reader, const ArchitectureTraits& traits, ModelConfig& config) {
  config.layer_windows.assign(static_cast<std::size_t>(config.layers), 0);
  if (traits.window == WindowRule::kNever) {
    if (const Json* window = reader.find("sliding_window")) reader.fail_unsupported("sliding_window", *window);
    return;
  }
  if (traits.window == WindowRule::kEveryLayer) {
    if (!reader.has("sliding_window")) reader.fail_missing("sliding_window");  // null says: none
    const auto window = reader.optional_integer("sliding_window", 1, kMaxTokenCount);
    std::fill(config.layer_windows.begin(), config.layer_windows.end(), window.value_or(0));
    return;
  }
  const bool use_window = reader.optional_boolean("use_sliding_window").value_or(false);
  const auto window = reader.optional_integer("sliding_window", 1, kMaxTokenCount);
  if (use_window && !window) reader.fail_missing("sliding_window");
  const std::vector<bool> sliding = read_sliding_layers(reader, config, use_window);
  for (std::size_t i = 0; i < sliding.size(); ++i) config.layer_windows[i] = sliding[i] ? *window : 0;
}

}  // namespace

bool ModelConfig::has_window() const {
  return std::any_of(layer_windows.begin(), layer_windows.end(), [](std::int64_t window) { return window != 0; });
}

ModelConfig parse_config(std::string_view json, const std::string& file) {
  const Json root = parse_json_object(json, file);
  JsonReader reader(root, file);
  const ArchitectureTraits& traits = read_architecture(reader);
  ModelConfig config;
  config.architecture = traits.architecture;
  config.qk_norm = traits.qk_norm;
  config.declared_dtype = read_dtype(reader);
  read_sizes(reader, traits, config);
  config.rms_norm_eps = reader.number("rms_norm_eps", 0, 1);
  config.rotary = read_rotary(reader, config.max_positions);
  config.tied_embeddings = reader.optional_boolean("tie_word_embeddings").value_or(false);  // of all four families
  read_biases(reader, traits, config);
  read_windows(reader, traits, config);
  config.bos_token = reader.optional_integer("bos_token_id", 0, config.vocab_size - 1);
  config.eos_tokens = reader.integers("eos_token_id", 0, config.vocab_size - 1);
  if (reader.find("hidden_act") == nullptr) reader.fail_missing("hidden_act");
  reader.ignore(kHarmlessModelKeys);
  reader.allow_only(kFixedModelValues);
  reader.refuse_the_rest();
  check_config(config, file);
  return config;
}

// What a ModelConfig must satisfy, whether a file was read or a program filled it in.
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
    require(window >= 0 && window <= kMaxTokenCount, "{}: a window of {} positions", file, window);
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

// Writing config.json.
namespace {

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return "bfloat16";
    case DType::kF16: return "float16";
    case DType::kF32: break;
  }
  return "float32";
}

void write_rotary(const RotaryConfig& rotary, Spelling spelling, Json& out) {
  Json block = rotary_to_json(rotary);
  if (spelling == Spelling::kNew) {
    block["rope_theta"] = rotary.theta;
    out["rope_parameters"] = std::move(block);
    return;
  }
  out["rope_theta"] = rotary.theta;
  out["rope_scaling"] = rotary.kind == RotaryKind::kPlain ? Json(nullptr) : std::move(block);
}

void write_windows(const ModelConfig& config, WindowRule rule, Json& out) {
  if (rule == WindowRule::kNever) return;
  const auto& windows = config.layer_windows;
  const auto first = std::find_if(windows.begin(), windows.end(), [](std::int64_t window) { return window != 0; });
  const bool any = first != windows.end();
  out["sliding_window"] = any ? Json(*first) : Json(nullptr);
  if (rule == WindowRule::kEveryLayer) return;
  out["use_sliding_window"] = any;
  out["max_window_layers"] = first - windows.begin();
  Json types = Json::array();
  for (const std::int64_t window : windows) types.push_back(window == 0 ? "full_attention" : "sliding_attention");
  out["layer_types"] = std::move(types);
}

}  // namespace

std::string config_to_json(const ModelConfig& config, Spelling spelling) {
  const ArchitectureTraits& traits = traits_of(config.architecture);
  Json out = {{"architectures", {traits.name}},
              {"model_type", traits.model_type},
              {"hidden_act", "silu"},
              {"rms_norm_eps", config.rms_norm_eps},
              {"tie_word_embeddings", config.tied_embeddings}};
  for (const SizeKey& size : kSizeKeys) out[std::string(size.key)] = config.*size.field;
  out[std::string(kKvHeadsKey.key)] = config.kv_heads;
  out[std::string(kHeadDimKey.key)] = config.head_dim;
  if (traits.attention_bias == BiasRule::kByKey) out["attention_bias"] = config.qkv_bias;
  if (traits.mlp_bias_by_key) out["mlp_bias"] = config.mlp_bias;
  if (config.declared_dtype)
    out[spelling == Spelling::kNew ? "dtype" : "torch_dtype"] = torch_name(*config.declared_dtype);
  write_rotary(config.rotary, spelling, out);
  write_windows(config, traits.window, out);
  out["bos_token_id"] = config.bos_token ? Json(*config.bos_token) : Json(nullptr);
  const auto& eos = config.eos_tokens;
  out["eos_token_id"] = eos.empty() ? Json(nullptr) : eos.size() == 1 ? Json(eos.front()) : Json(eos);
  return out.dump(2) + "\n";
}

}  // namespace reprofuse::checkpoint
