#include "study/seeded/random_weights.hpp"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/check.hpp"
#include "base/math.hpp"
#include "checkpoint/architecture.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/expected_tensors.hpp"
#include "checkpoint/safetensors.hpp"
#include "numerics/widen.hpp"
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

}  // namespace reprofuse::study
