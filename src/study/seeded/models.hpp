// Models with seeded random weights: on disk, in memory, and as cases whose logits have a digest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "checkpoint/config.hpp"
#include "checkpoint/safetensors.hpp"
#include "model/model.hpp"
#include "model/weights.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::study {

// Seeded random weights of any supported shape, for tests and benchmarks: checkpoints on disk, of which every machine
// writes the same bytes, and tensors made when they are asked for.

struct RandomCheckpoint {
  checkpoint::ModelConfig config;
  DType dtype = DType::kBF16;
  std::uint64_t seed = 1;
  int shards = 1;  // 1: one model.safetensors; more: that many files and an index
  checkpoint::Spelling spelling = checkpoint::Spelling::kOld;
};

// One tensor's elements in host order. They depend on seed, name, dtype, shape and role, not on the other tensors.
// Matrices have a root mean square near 1 / sqrt(inputs), so that activations keep their size from layer to layer;
// norm weights are near 1, and logits spread over a few units.
std::vector<std::byte> random_tensor(const checkpoint::ExpectedTensor& tensor, DType dtype, std::uint64_t seed,
                                     ThreadPool& pool);

// Writes config.json and the weights into `folder`, which is made if it does not exist. Files of those names are
// replaced. One tensor at a time is in memory.
void write_random_checkpoint(const std::string& folder, const RandomCheckpoint& random, ThreadPool& pool);

// A small valid config of the family, to vary: 3 layers, odd sizes, 6 heads of 16 over 2 key-value heads.
checkpoint::ModelConfig small_config(checkpoint::Architecture architecture);

// The weights of a model that is in no file.
class RandomSource final : public model::WeightSource {
 public:
  RandomSource(checkpoint::ModelConfig config, DType dtype, std::uint64_t seed);

  DType dtype() const { return dtype_; }
  std::uint64_t seed() const { return seed_; }
  const checkpoint::ModelConfig& config() const override { return config_; }
  std::int64_t tensor_bytes() const override;
  checkpoint::TensorView tensor(std::string_view name) const override;

 private:
  checkpoint::ModelConfig config_;
  DType dtype_;
  std::uint64_t seed_;
  mutable ThreadPool pool_;
};

// For devices that copy their weights: random numbers that all tensors of a shape have in common. What a model takes in
// time and memory does not depend on them, and to draw those of every tensor takes longer than to measure it.
class RepeatedSource final : public model::WeightSource {
 public:
  RepeatedSource(const checkpoint::ModelConfig& config, DType dtype, std::uint64_t seed);
  // With the tensors of another, as far as shapes are the same.
  RepeatedSource(const checkpoint::ModelConfig& config, const RepeatedSource& other);

  const checkpoint::ModelConfig& config() const override { return random_.config(); }
  std::int64_t tensor_bytes() const override { return random_.tensor_bytes(); }
  checkpoint::TensorView tensor(std::string_view name) const override;

 private:
  using TensorsByShape = std::map<std::vector<std::int64_t>, checkpoint::TensorView>;

  RandomSource random_;
  std::vector<checkpoint::ExpectedTensor> expected_;
  std::shared_ptr<TensorsByShape> made_;
};

// Whole models with seeded weights, one per architecture and peculiarity, and the digest of their logits. A digest is a
// function of the case alone: not of how its tokens are cut into passes, nor of what else is computed beside them.

struct ModelCase {
  std::string name;
  checkpoint::ModelConfig config;
  DType dtype;
  std::uint64_t seed;   // of the weights; seed + 1 is that of the tokens
  std::int64_t tokens;  // of the text
};

std::vector<ModelCase> model_cases();

std::vector<std::int32_t> random_tokens(std::uint64_t seed, std::int64_t count, std::int64_t vocabulary);
std::vector<std::int32_t> case_tokens(const ModelCase& spec);
std::unique_ptr<model::Model> make_model(const Context& context, const ModelCase& spec,
                                         const model::TeamPlace& place = {});

// How a text is computed. No bit may depend on any of it.
struct PassPlan {
  std::int64_t chunk = 512;        // tokens per pass
  std::int32_t page_size = 64;     // of the cache
  int companions = 0;              // other texts in the same passes, of other lengths
  bool companions_decode = false;  // they too take one token per pass, not one to five
};

// SHA-256 chain over the logits of every position.
std::string logits_digest(const model::Model& model, const ModelCase& spec, const PassPlan& plan);

}  // namespace reprofuse::study
