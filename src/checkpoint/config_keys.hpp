// The keys of config.json that need no thought, listed so that every other one gets some.
#pragma once

#include <string_view>

#include "checkpoint/config.hpp"
#include "checkpoint/json_reader.hpp"

namespace reprofuse::checkpoint {

struct SizeKey {
  std::string_view key;
  std::int64_t ModelConfig::*field;
  std::int64_t max;  // far above any model; keeps what is derived from a hostile file small enough to compute with
};

// Sizes that every family states.
inline constexpr SizeKey kSizeKeys[] = {
    {"vocab_size", &ModelConfig::vocab_size, 1 << 26},
    {"hidden_size", &ModelConfig::hidden_size, 1 << 20},
    {"intermediate_size", &ModelConfig::intermediate_size, 1 << 22},
    {"num_hidden_layers", &ModelConfig::layers, 1 << 12},
    {"num_attention_heads", &ModelConfig::heads, 1 << 12},
    {"max_position_embeddings", &ModelConfig::max_positions, 1 << 20},
};
inline constexpr SizeKey kKvHeadsKey = {"num_key_value_heads", &ModelConfig::kv_heads, 1 << 12};
inline constexpr SizeKey kHeadDimKey = {"head_dim", &ModelConfig::head_dim, 1 << 12};
inline constexpr std::int64_t kMaxWindow = 1 << 30;

// Training, caching, bookkeeping and library internals: nothing that an answer depends on.
inline constexpr std::string_view kHarmlessModelKeys[] = {
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
inline constexpr FixedValue kFixedModelValues[] = {
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

}  // namespace reprofuse::checkpoint
