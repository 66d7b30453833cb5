// Seeded random weights of any supported shape, for tests and benchmarks: checkpoints on disk, of which every machine
// writes the same bytes, and tensors made when they are asked for.
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
#include "checkpoint/expected_tensors.hpp"
#include "checkpoint/safetensors.hpp"
#include "model/weight_source.hpp"

namespace reprofuse::study {

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

}  // namespace reprofuse::study
