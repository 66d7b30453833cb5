// An engine over the bundled model, and the answers that come out of it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "engine/model_files.hpp"
#include "support/bundled_model.hpp"
#include "support/plain_generate.hpp"

namespace reprofuse::engine {

inline const ModelFiles& bundled_files() {
  static const ModelFiles files(REPROFUSE_BUNDLED_MODEL);
  return files;
}

inline std::optional<Tokenizer> bundled_tokenizer() {
  const TextFormat& text = bundled_files().text();
  return text.has_tokenizer() ? std::optional(text.tokenizer()) : std::nullopt;
}

// All updates of one choice, put together.
struct Received {
  std::vector<std::int32_t> tokens;
  std::string text;
  std::vector<AnswerToken> details;
  std::vector<PromptToken> prompt;
  std::int64_t cached_prompt_tokens = 0;
  std::optional<End> end;

  void add(const Update& update) {
    for (const AnswerToken& token : update.tokens) {
      tokens.push_back(token.id);
      text += token.text;
      details.push_back(token);
    }
    prompt.insert(prompt.end(), update.prompt.begin(), update.prompt.end());
    cached_prompt_tokens = update.cached_prompt_tokens;
    if (!update.end) return;
    end = update.end;
    text += update.end->text;
  }
};

using Answered = std::map<std::pair<RequestId, int>, Received>;

inline void step(Engine& engine, Answered& answered) {
  for (const RequestUpdate& entry : engine.step()) answered[{entry.request, entry.update.choice}].add(entry.update);
}

inline Answered run_until_idle(Engine& engine) {
  Answered answered;
  while (!engine.idle()) step(engine, answered);
  return answered;
}

inline Received answer_alone(const model::Model& model, Request request, EngineOptions options = {.kv_pages = 8}) {
  Engine engine(model, options, bundled_tokenizer());
  engine.add(0, std::move(request));
  return run_until_idle(engine)[{0, 0}];
}

// What the plain loop gives for a request with one choice.
inline model::PlainAnswer plain_answer(const model::Model& model, const Request& request) {
  return model::plain_generate(
      model, request.prompt,
      {.max_tokens = request.max_tokens, .sampling = request.sampling, .stop_tokens = request.stop_tokens});
}

// Tests that share one bundled model.
class BundledModelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = model::bundled_model(Context::cpu()); }
  static void TearDownTestSuite() { model_.reset(); }
  static inline std::unique_ptr<model::Model> model_;
};

inline Request golden_request() {
  const model::GoldenAnswer golden = model::golden_answer();
  Request request;
  request.prompt = golden.prompt;
  request.max_tokens = 200;
  request.stop_tokens = golden.stop_tokens;
  request.digest = DigestKind::kTree1;
  return request;
}

inline Request sampled_request(std::int64_t prompt_tokens, std::int64_t max_tokens, std::uint64_t seed) {
  Request request;
  for (std::int64_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<std::int32_t>((i * 37 + static_cast<std::int64_t>(seed) * 11) % 1000));
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.9F;
  request.sampling.seed = seed;
  request.digest = DigestKind::kTree1;
  return request;
}

}  // namespace reprofuse::engine
