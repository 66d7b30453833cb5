// The model that comes with ReproFuse, and the answer that golden/answers.json records of it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.hpp"
#include "model/weights.hpp"
#include "support/json.hpp"

namespace reprofuse::model {

// The longest text that the tests make of it.
inline constexpr std::int64_t kTestPositions = 512;

inline std::unique_ptr<Model> bundled_model(const Context& context, std::int64_t max_positions = kTestPositions) {
  auto source = std::make_shared<CheckpointSource>(checkpoint::Checkpoint::open(REPROFUSE_BUNDLED_MODEL));
  return std::make_unique<Model>(context, std::move(source), max_positions);
}

struct GoldenAnswer {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> tokens;
  std::string digest;
  std::string chain_digest;
  std::vector<std::int32_t> stop_tokens;
};

inline GoldenAnswer golden_answer(std::string_view numerics = kDefaultNumerics) {
  const nlohmann::json json = read_json(REPROFUSE_GOLDEN_ANSWERS);
  const auto eos = checkpoint::Checkpoint::open(REPROFUSE_BUNDLED_MODEL).eos_tokens();
  return {json.at("prompt_tokens"),
          json.at("tokens"),
          json.at("tree_digests").at(std::string(numerics)),
          json.at("digests").at(std::string(numerics)),
          {eos.ids.begin(), eos.ids.end()}};
}

}  // namespace reprofuse::model
