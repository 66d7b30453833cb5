// Seeded random weights of any supported shape, made when they are asked for: models for tests and benchmarks.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "model/weight_source.hpp"

namespace reprofuse::study {

class RandomSource final : public model::WeightSource {
 public:
  RandomSource(checkpoint::ModelConfig config, DType dtype, std::uint64_t seed);

  const checkpoint::ModelConfig& config() const override { return config_; }
  std::int64_t tensor_bytes() const override;
  checkpoint::TensorView tensor(std::string_view name) const override;
  void release(const checkpoint::TensorView& tensor) const override;  // the embedding stays: the CPU reads its rows

 private:
  checkpoint::ModelConfig config_;
  DType dtype_;
  std::uint64_t seed_;
  mutable ThreadPool pool_;
  mutable std::map<std::string, std::vector<std::byte>, std::less<>> made_;  // in file order
};

}  // namespace reprofuse::study
