// The keys of config.json and generation_config.json that need no thought, listed so that every other one gets some.
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

// Bookkeeping, and what shapes outputs that we do not produce.
inline constexpr std::string_view kHarmlessGenerationKeys[] = {
    "_from_model_config",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "disable_compile",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "return_dict_in_generate",
    "transformers_version",
    "trust_remote_code",
    "use_cache",
};

// Ways of choosing tokens that we do not implement, at the values that switch them off.
inline constexpr FixedValue kFixedGenerationValues[] = {
    {"assistant_early_exit", "null"},
    {"bad_words_ids", "null"},
    {"begin_suppress_tokens", "null"},
    {"constraints", "null"},
    {"decoder_start_token_id", "null"},
    {"diversity_penalty", "0.0"},
    {"dola_layers", "null"},
    {"early_stopping", "false"},
    {"encoder_no_repeat_ngram_size", "0"},
    {"encoder_repetition_penalty", "1.0"},
    {"epsilon_cutoff", "0.0"},
    {"eta_cutoff", "0.0"},
    {"exponential_decay_length_penalty", "null"},
    {"force_words_ids", "null"},
    {"forced_bos_token_id", "null"},
    {"forced_decoder_ids", "null"},
    {"forced_eos_token_id", "null"},
    {"guidance_scale", "null"},
    {"length_penalty", "1.0"},
    {"low_memory", "null"},
    {"max_time", "null"},
    {"min_length", "0"},
    {"min_new_tokens", "null"},
    {"no_repeat_ngram_size", "0"},
    {"num_beam_groups", "1"},
    {"num_beams", "1"},
    {"num_return_sequences", "1"},
    {"penalty_alpha", "null"},
    {"prompt_lookup_num_tokens", "null"},
    {"remove_invalid_values", "false"},
    {"renormalize_logits", "false"},
    {"sequence_bias", "null"},
    {"stop_strings", "null"},
    {"suppress_tokens", "null"},
    {"token_healing", "false"},
    {"typical_p", "1.0"},
    {"watermarking_config", "null"},
};

}  // namespace reprofuse::checkpoint
