#include "study/seeded/model_cases.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "model/logits_digest.hpp"
#include "model/runner.hpp"
#include "study/seeded/inputs.hpp"
#include "study/seeded/random_weights.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kCasePositions = 2048;

using checkpoint::Architecture;
using checkpoint::ModelConfig;

ModelConfig with_heads(ModelConfig config, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.head_dim = head_dim;
  return config;
}

ModelCase llama_tied() {
  ModelConfig config = small_config(Architecture::kLlama);
  config.tied_embeddings = true;
  return {"llama-tied", config, DType::kBF16, 100, 150};
}

ModelCase llama3_scaled() {
  ModelConfig config = with_heads(small_config(Architecture::kLlama), 8, 1, 32);
  config.hidden_size = 200;
  config.rotary = {.kind = RotaryKind::kLlama3,
                   .theta = 500000.0,
                   .factor = 32.0,
                   .original_max_positions = 64,
                   .low_freq_factor = 1.0,
                   .high_freq_factor = 4.0};
  return {"llama3-rope-f16", config, DType::kF16, 110, 131};
}

// Rows longer than a segment and a chain of norms, so that folds happen.
ModelCase llama_wide() {
  ModelConfig config = with_heads(small_config(Architecture::kLlama), 4, 4, 160);
  config.layers = 2;
  config.layer_windows.assign(2, 0);
  config.hidden_size = 1032;
  config.intermediate_size = 1544;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.rotary = {.kind = RotaryKind::kLinear, .theta = 10000.0, .factor = 4.0};
  return {"llama-wide-bias", config, DType::kBF16, 120, 66};
}

ModelCase llama_f32() {
  return {"llama-f32", with_heads(small_config(Architecture::kLlama), 5, 1, 48), DType::kF32, 130, 70};
}

ModelCase qwen2() {
  return {"qwen2-bias", with_heads(small_config(Architecture::kQwen2), 14, 2, 64), DType::kBF16, 140, 140};
}

ModelCase qwen2_tied() {
  ModelConfig config = with_heads(small_config(Architecture::kQwen2), 8, 2, 32);
  config.tied_embeddings = true;
  return {"qwen2-tied-f16", config, DType::kF16, 170, 75};
}

ModelCase qwen3() {
  ModelConfig config = with_heads(small_config(Architecture::kQwen3), 4, 2, 80);
  config.tied_embeddings = true;
  config.rotary = {.kind = RotaryKind::kYarn, .theta = 1000000.0, .factor = 4.0, .original_max_positions = 512};
  return {"qwen3-norm-yarn", config, DType::kBF16, 150, 129};
}

ModelCase mistral() {
  ModelConfig config = with_heads(small_config(Architecture::kMistral), 6, 1, 128);
  config.layer_windows.assign(config.layer_windows.size(), 45);
  return {"mistral-window", config, DType::kBF16, 160, 200};
}

// A text that is computed beside the case's.
struct Companion {
  model::Sequence sequence;
  std::vector<std::int32_t> tokens;
  std::size_t chunk_size;
};

model::TokenChunk next_chunk(model::Sequence& sequence, std::span<const std::int32_t> tokens, std::size_t size,
                             model::Logits logits) {
  const auto done = static_cast<std::size_t>(sequence.length());
  const std::size_t count = std::min(size, tokens.size() - done);
  invariant(sequence.reserve(static_cast<std::int64_t>(count)), "the cache of a model case is too small");
  return {&sequence, tokens.subspan(done, count), logits};
}

}  // namespace

std::vector<std::int32_t> random_tokens(std::uint64_t seed, std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(random_word(seed, static_cast<std::uint64_t>(i)) %
                                               static_cast<std::uint64_t>(vocabulary)));
  return tokens;
}

std::vector<ModelCase> model_cases() {
  return {llama_tied(), llama3_scaled(), llama_wide(), llama_f32(), qwen2(), qwen2_tied(), qwen3(), mistral()};
}

std::vector<std::int32_t> case_tokens(const ModelCase& spec) {
  return random_tokens(spec.seed + 1, spec.tokens, spec.config.vocab_size);
}

std::unique_ptr<model::Model> make_model(const Context& context, const ModelCase& spec, const model::TeamPlace& place) {
  return std::make_unique<model::Model>(context, std::make_shared<RandomSource>(spec.config, spec.dtype, spec.seed),
                                        kCasePositions, Progress{}, place);
}

std::string logits_digest(const model::Model& model, const ModelCase& spec, const PassPlan& plan) {
  const std::vector<std::int32_t> tokens = case_tokens(spec);
  const std::int64_t chunk = std::min<std::int64_t>(plan.chunk, spec.tokens);
  constexpr std::int64_t kCompanionTokens = 90;
  constexpr std::size_t kCompanionChunks = 5;
  const std::int64_t pages_of_text = (spec.tokens + plan.page_size - 1) / plan.page_size;
  const std::int64_t pages_of_companion = (kCompanionTokens + plan.page_size - 1) / plan.page_size;
  model::KvCache cache(model.context(), model.own_config(), pages_of_text + plan.companions * pages_of_companion,
                       plan.page_size);
  const std::int64_t companion_rows = plan.companions * static_cast<std::int64_t>(kCompanionChunks);
  model::Runner runner(
      model, cache,
      {.rows = chunk + companion_rows, .sequences = 1 + plan.companions, .logit_rows = chunk + plan.companions});

  model::Sequence text(cache);
  std::vector<Companion> companions;
  for (int i = 0; i < plan.companions; ++i) {
    const auto length = kCompanionTokens - std::int64_t{i} * 7 % kCompanionTokens;
    companions.push_back(
        {model::Sequence(cache),
         random_tokens(spec.seed + 1000 + static_cast<std::uint64_t>(i), length, spec.config.vocab_size),
         plan.companions_decode ? 1 : 1 + static_cast<std::size_t>(i) % kCompanionChunks});
  }

  model::LogitsDigest digest(DigestKind::kChain1);
  while (text.length() < spec.tokens) {
    // The case's text in the middle of the others.
    std::vector<model::TokenChunk> chunks;
    std::size_t rows_before = 0;
    std::size_t place = 0;
    for (Companion& companion : companions) {
      if (place++ == companions.size() / 2) {
        rows_before = chunks.size();
        chunks.push_back(next_chunk(text, tokens, static_cast<std::size_t>(chunk), model::Logits::kAll));
      }
      if (companion.sequence.length() < static_cast<std::int64_t>(companion.tokens.size()))
        chunks.push_back(next_chunk(companion.sequence, companion.tokens, companion.chunk_size, model::Logits::kLast));
    }
    if (companions.empty())
      chunks.push_back(next_chunk(text, tokens, static_cast<std::size_t>(chunk), model::Logits::kAll));
    const std::size_t rows = chunks[rows_before].tokens.size();
    runner.run(chunks);
    const std::vector<float> logits = runner.host_logits();
    const auto vocabulary = static_cast<std::size_t>(spec.config.vocab_size);
    for (std::size_t row = rows_before; row < rows_before + rows; ++row)
      digest.add_row(std::span(logits).subspan(row * vocabulary, vocabulary));
  }
  return digest.text();
}

}  // namespace reprofuse::study
