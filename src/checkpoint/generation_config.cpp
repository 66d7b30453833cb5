#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "checkpoint/config.hpp"
#include "numerics/sampling.hpp"

namespace reprofuse::checkpoint {
namespace {

// Bookkeeping, and what shapes outputs that we do not produce.
constexpr std::string_view kHarmlessGenerationKeys[] = {
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
constexpr FixedValue kFixedGenerationValues[] = {
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

constexpr double kMaxScale = 1e6;

}  // namespace

GenerationConfig parse_generation_config(std::string_view json, const std::string& file, std::int64_t vocab_size) {
  const Json root = parse_json_object(json, file);
  JsonReader reader(root, file);
  GenerationConfig config;
  config.do_sample = reader.optional_boolean("do_sample");
  config.temperature = reader.optional_number("temperature", 0, kMaxScale);
  config.top_k = reader.optional_integer("top_k", 0, kMaxTokenCount);
  config.top_p = reader.optional_number("top_p", 0, 1);
  if (config.top_p == 0.0) reader.fail_value("top_p", *reader.find("top_p"), "positive");  // leaves no token
  config.min_p = reader.optional_number("min_p", 0, 1);
  config.repetition_penalty =
      reader.optional_number("repetition_penalty", kMinRepetitionPenalty, kMaxRepetitionPenalty);
  config.max_new_tokens = reader.optional_integer("max_new_tokens", 1, kMaxTokenCount);
  config.max_length = reader.optional_integer("max_length", 1, kMaxTokenCount);
  config.bos_token = reader.optional_integer("bos_token_id", 0, vocab_size - 1);
  config.eos_tokens = reader.integers("eos_token_id", 0, vocab_size - 1);
  config.pad_token = reader.optional_integer("pad_token_id", 0, vocab_size - 1);
  reader.ignore(kHarmlessGenerationKeys);
  reader.allow_only(kFixedGenerationValues);
  reader.refuse_the_rest();
  return config;
}

}  // namespace reprofuse::checkpoint
