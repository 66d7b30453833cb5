#include "study/seeded/models.hpp"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/check.hpp"
#include "base/math.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/config.hpp"
#include "checkpoint/safetensors.hpp"
#include "model/logits_digest.hpp"
#include "model/runner.hpp"
#include "numerics/float_ops.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::TensorRole;

constexpr std::int64_t kBlock = 1 << 16;  // elements that one task fills
constexpr int kBiasTop = -4;

// FNV-1a: another stream for every name.
std::uint64_t seed_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return random_word(hash, 0);
}

int top_exponent(const ExpectedTensor& tensor) {
  if (tensor.role == TensorRole::kBias) return kBiasTop;
  const auto inputs = static_cast<std::uint64_t>(tensor.shape.back());
  const int half_log = (static_cast<int>(std::bit_width(inputs)) - 1) / 2;
  // Twice that for the embedding and the head, or all logits would be close to each other.
  const bool spread = tensor.role == TensorRole::kEmbedding || tensor.name == checkpoint::kHeadName;
  return spread ? 1 - half_log : -half_log;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  require(file.good(), "{}: cannot be written", path);
}

std::string shard_name(int shard, int shards) {
  if (shards == 1) return std::string(checkpoint::kWeightsFile);
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

}  // namespace

std::vector<std::byte> random_tensor(const ExpectedTensor& tensor, DType dtype, std::uint64_t seed, ThreadPool& pool) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= size;
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * dtype_bytes(dtype));
  const std::uint64_t own_seed = seed_of(seed, tensor.name);
  const FloatFormat format = format_of(dtype);
  const int top = top_exponent(tensor);
  pool.parallel_for(ceil_div(elements, kBlock), [&](std::int64_t block, int) {
    const std::int64_t end = std::min(elements, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; ++i) {
      const std::uint64_t word = random_word(own_seed, static_cast<std::uint64_t>(i));
      const bool norm = tensor.role == TensorRole::kNorm;
      store_weight(bytes.data(), dtype, i, norm ? random_near_one(word, format) : random_float(word, format, top));
    }
  });
  return bytes;
}

void write_random_checkpoint(const std::string& folder, const RandomCheckpoint& random, ThreadPool& pool) {
  checkpoint::ModelConfig config = random.config;
  config.declared_dtype = random.dtype;
  checkpoint::check_config(config, folder);
  const std::vector<ExpectedTensor> expected = checkpoint::expected_tensors(config);
  require(random.shards >= 1 && static_cast<std::size_t>(random.shards) <= expected.size(),
          "{}: {} tensors cannot be put into {} shards", folder, expected.size(), random.shards);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, "{}: cannot be made: {}", folder, error.message());

  std::vector<std::vector<checkpoint::TensorToWrite>> shards(static_cast<std::size_t>(random.shards));
  checkpoint::WeightMap weight_map;
  std::int64_t total_bytes = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ExpectedTensor& tensor = expected[i];
    const std::size_t shard = i * shards.size() / expected.size();
    weight_map[tensor.name] = shard_name(static_cast<int>(shard), random.shards);
    shards[shard].push_back({tensor.name, random.dtype, tensor.shape, [&random, &tensor, &pool, &total_bytes] {
                               std::vector<std::byte> bytes = random_tensor(tensor, random.dtype, random.seed, pool);
                               checkpoint::convert_byte_order(bytes, random.dtype);
                               total_bytes += static_cast<std::int64_t>(bytes.size());
                               return bytes;
                             }});
  }
  for (std::size_t shard = 0; shard < shards.size(); ++shard)
    checkpoint::write_safetensors(folder + "/" + shard_name(static_cast<int>(shard), random.shards), shards[shard],
                                  {{"format", "pt"}});
  if (random.shards > 1)
    write_text(folder + "/" + std::string(checkpoint::kShardIndexFile),
               checkpoint::shard_index_to_json(weight_map, total_bytes));
  write_text(folder + "/" + std::string(checkpoint::kConfigFile), config_to_json(config, random.spelling));
}

checkpoint::ModelConfig small_config(checkpoint::Architecture architecture) {
  const checkpoint::ArchitectureTraits& traits = checkpoint::traits_of(architecture);
  checkpoint::ModelConfig config;
  config.architecture = architecture;
  config.vocab_size = 311;
  config.hidden_size = 90;
  config.intermediate_size = 157;
  config.layers = 3;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.max_positions = 2048;
  config.rms_norm_eps = 1e-5;
  config.qkv_bias = traits.attention_bias == checkpoint::BiasRule::kQkvOnly;
  config.qk_norm = traits.qk_norm;
  config.layer_windows.assign(static_cast<std::size_t>(config.layers), 0);
  config.bos_token = 1;
  config.eos_tokens = {2};
  return config;
}

RandomSource::RandomSource(checkpoint::ModelConfig config, DType dtype, std::uint64_t seed)
    : config_(std::move(config)), dtype_(dtype), seed_(seed), pool_(available_cores()) {}

std::int64_t RandomSource::tensor_bytes() const {
  return checkpoint::parameter_count(config_) * static_cast<std::int64_t>(dtype_bytes(dtype_));
}

checkpoint::TensorView RandomSource::tensor(std::string_view name) const {
  const auto tensors = checkpoint::expected_tensors(config_);
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  require(found != tensors.end(), "a model of this shape has no tensor '{}'", name);
  const auto made = std::make_shared<std::vector<std::byte>>(random_tensor(*found, dtype_, seed_, pool_));
  checkpoint::convert_byte_order(*made, dtype_);  // a view is in file order
  return {.name = found->name,
          .file = "random weights",
          .bytes = *made,
          .dtype = dtype_,
          .shape = found->shape,
          .owner = made};
}

RepeatedSource::RepeatedSource(const checkpoint::ModelConfig& config, DType dtype, std::uint64_t seed)
    : random_(config, dtype, seed),
      expected_(checkpoint::expected_tensors(config)),
      made_(std::make_shared<TensorsByShape>()) {}

RepeatedSource::RepeatedSource(const checkpoint::ModelConfig& config, const RepeatedSource& other)
    : random_(config, other.random_.dtype(), other.random_.seed()),
      expected_(checkpoint::expected_tensors(config)),
      made_(other.made_) {}

checkpoint::TensorView RepeatedSource::tensor(std::string_view name) const {
  const auto found = std::find_if(expected_.begin(), expected_.end(), [&](const auto& t) { return t.name == name; });
  require(found != expected_.end(), "a model of this shape has no tensor '{}'", name);
  if (!made_->contains(found->shape)) {  // by the first of them, whichever is asked for
    const auto first =
        std::find_if(expected_.begin(), expected_.end(), [&](const auto& t) { return t.shape == found->shape; });
    made_->emplace(found->shape, random_.tensor(first->name));
  }
  checkpoint::TensorView view = made_->at(found->shape);
  view.name = name;
  return view;
}

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
