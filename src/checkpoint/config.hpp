// A model's shape and constants, read from config.json: resolved, checked, and free of the file's spellings; what
// generation_config.json says about choosing tokens; and how the supported families differ, with the tensors they have.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/rotary.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse {
class JsonReader;
}

namespace reprofuse::checkpoint {

using Json = nlohmann::json;

// Of tokens or positions, in keys that no size is derived from: far above any model.
inline constexpr std::int64_t kMaxTokenCount = std::int64_t{1} << 30;

enum class Architecture : std::uint8_t { kLlama, kQwen2, kQwen3, kMistral };

std::string_view architecture_name(Architecture architecture);  // "LlamaForCausalLM", as config.json spells it

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::optional<DType>
      declared_dtype;  // what config.json says; each tensor has a dtype of its own, and that one counts

  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;       // divides heads
  std::int64_t head_dim = 0;       // even; heads * head_dim need not be hidden_size
  std::int64_t max_positions = 0;  // the context length the model declares

  double rms_norm_eps = 0;  // as written; the arithmetic uses rms_norm_eps_f32()
  RotaryConfig rotary;

  bool tied_embeddings = false;  // the head is the embedding matrix
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMSNorm over each head of q and k, before rotary (Qwen3)

  // A query at position p of a layer with a window w sees positions p - w + 1 to p. One entry per layer; 0: no window.
  std::vector<std::int64_t> layer_windows;

  std::optional<std::int64_t> bos_token;
  std::vector<std::int64_t> eos_tokens;  // any of them ends a text; may be empty

  float rms_norm_eps_f32() const { return static_cast<float>(rms_norm_eps); }
  std::int64_t q_size() const { return heads * head_dim; }
  std::int64_t kv_size() const { return kv_heads * head_dim; }
  bool has_window() const;  // some layer has one

  bool operator==(const ModelConfig&) const = default;
};

// `file` appears in error messages: "config.json: key 'foo' with value 3 is not understood".
// Throws kInvalidArgument for what is malformed, kUnsupported for what is well-formed and not implemented.
ModelConfig parse_config(std::string_view json, const std::string& file);

// Throws unless sizes are positive, fit each other, and make tensors that an int64 can count.
void check_config(const ModelConfig& config, const std::string& file);

enum class Spelling : std::uint8_t {
  kOld,  // rope_theta, rope_scaling, torch_dtype: read by every version of transformers
  kNew,  // rope_parameters, dtype: written by transformers 5
};

// The config as a config.json; parse_config gives an equal config back.
std::string config_to_json(const ModelConfig& config, Spelling spelling = Spelling::kOld);

// The rotary part of config.json, in its old spelling (rope_theta, rope_scaling) and its new one (rope_parameters).
RotaryConfig read_rotary(JsonReader& config, std::int64_t max_positions);

// Throws unless the values of a RotaryConfig fit its kind.
void check_rotary(const RotaryConfig& rotary, const std::string& file);

// The block that goes under rope_scaling or rope_parameters, without rope_theta: {"rope_type": "llama3", ...}.
Json rotary_to_json(const RotaryConfig& rotary);

// What generation_config.json does not say stays empty: the caller decides.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // >= 0
  std::optional<std::int64_t> top_k;         // 0: all
  std::optional<double> top_p;               // in (0, 1]
  std::optional<double> min_p;               // in [0, 1]
  std::optional<double> repetition_penalty;  // 0.01 to 100, as in a request
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::int64_t> max_length;  // prompt and answer together
  std::optional<std::int64_t> bos_token;
  std::optional<std::int64_t> pad_token;
  std::vector<std::int64_t> eos_tokens;

  bool operator==(const GenerationConfig&) const = default;
};

// `file` appears in error messages; token ids must be below vocab_size.
GenerationConfig parse_generation_config(std::string_view json, const std::string& file, std::int64_t vocab_size);

// What the supported families share and where they differ, as one table.

enum class BiasRule : std::uint8_t {
  kNever,
  kByKey,   // attention_bias of config.json: q, k, v and o, all or none
  kQkvOnly  // always on q, k and v, never on o
};

enum class WindowRule : std::uint8_t {
  kNever,
  kEveryLayer,  // sliding_window holds for all layers, or is null
  kByLayer,     // use_sliding_window, max_window_layers, layer_types
};

struct ArchitectureTraits {
  Architecture architecture;
  std::string_view name;        // in "architectures"
  std::string_view model_type;  // in "model_type"
  BiasRule attention_bias;
  bool mlp_bias_by_key;  // mlp_bias of config.json counts
  bool qk_norm;
  WindowRule window;
  // transformers fills these keys with the numbers of one published model when they are absent. We ask for them.
  bool needs_kv_heads;
  bool needs_head_dim;
};

std::span<const ArchitectureTraits> architectures();
const ArchitectureTraits& traits_of(Architecture architecture);

// The tensors that a model consists of, by the names that Hugging Face checkpoints give them.

enum class TensorRole : std::uint8_t { kEmbedding, kMatrix, kBias, kNorm };

struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // matrices are [outputs, inputs]
  TensorRole role;
};

inline constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";
inline constexpr std::string_view kFinalNormName = "model.norm.weight";
inline constexpr std::string_view kHeadName = "lm_head.weight";  // expected of an untied model only

// layer_tensor_name(3, "self_attn.q_proj.weight") is "model.layers.3.self_attn.q_proj.weight".
std::string layer_tensor_name(std::int64_t layer, std::string_view tensor);

// In the order of the forward pass.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

// Elements over all expected tensors. The limits of check_config keep their bytes, too, within an int64.
std::int64_t parameter_count(const ModelConfig& config);

}  // namespace reprofuse::checkpoint
