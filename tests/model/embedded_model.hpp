// The model that comes with ReproFuse, and the answer that golden/answers.json records of it.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint_source.hpp"
#include "model/generate.hpp"
#include "model/model.hpp"

namespace reprofuse::model {

inline nlohmann::json read_json(const std::string& path) {
  return nlohmann::json::parse(std::ifstream(path));
}

// The longest text that the tests make of it.
inline constexpr std::int64_t kTestPositions = 512;

inline std::unique_ptr<Model> embedded_model(const Context& context, std::int64_t max_positions = kTestPositions) {
  auto source = std::make_shared<CheckpointSource>(checkpoint::Checkpoint::open(REPROFUSE_EMBEDDED_MODEL));
  return std::make_unique<Model>(context, std::move(source), max_positions);
}

struct GoldenAnswer {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> tokens;
  std::string digest;
  std::vector<std::int32_t> stop_tokens;
};

inline GoldenAnswer golden_answer(std::string_view numerics = kDefaultNumerics) {
  const nlohmann::json json = read_json(REPROFUSE_GOLDEN_ANSWERS);
  const auto eos = checkpoint::Checkpoint::open(REPROFUSE_EMBEDDED_MODEL).eos_tokens();
  return {json.at("prompt_tokens"),
          json.at("tokens"),
          json.at("digests").at(std::string(numerics)),
          {eos.ids.begin(), eos.ids.end()}};
}

inline GenerateOptions at_most(std::int64_t tokens, const std::vector<std::int32_t>& stop_tokens = {}) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.stop_tokens = stop_tokens;
  return options;
}

// How an answer is computed, apart from what is asked. No bit may depend on it.
struct AnswerPlan {
  std::int64_t prefill_chunk = 512;
  std::int32_t page_size = kDefaultPageSize;
};

inline GenerateResult answer(const Model& model, const std::vector<std::int32_t>& prompt, GenerateOptions options,
                             const AnswerPlan& plan = {}) {
  const std::int64_t pages = (model.max_positions() + plan.page_size - 1) / plan.page_size;
  KvCache cache(model.context(), model.config(), pages, plan.page_size);
  Runner runner(model, cache, {.rows = plan.prefill_chunk, .sequences = 1, .logit_rows = 1});
  options.prefill_chunk = plan.prefill_chunk;
  return generate(runner, cache, prompt, options);
}

}  // namespace reprofuse::model
