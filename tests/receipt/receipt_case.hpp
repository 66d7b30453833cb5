// The bundled model as an issuer of receipts, and as a verifier of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "receipt/log.hpp"
#include "receipt/replay.hpp"
#include "support/bundled_model.hpp"
#include "support/files.hpp"

namespace reprofuse::receipt {

inline const engine::ModelFiles& bundled_files() {
  static const engine::ModelFiles files(REPROFUSE_BUNDLED_MODEL);
  return files;
}

inline std::optional<Tokenizer> bundled_tokenizer() {
  return bundled_files().text().has_tokenizer() ? std::optional(bundled_files().text().tokenizer()) : std::nullopt;
}

// Tests that share a model, its artifacts and a key.
class ReceiptTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto source = std::make_shared<model::HashedSource>(bundled_files().source());
    model_ = std::make_unique<model::Model>(Context::cpu(), source, model::kTestPositions);
    artifacts_ = artifacts_of(bundled_files(), TextFiles(REPROFUSE_BUNDLED_MODEL), source->manifest(), "2024-07-26",
                              model::kTestPositions);
  }
  static void TearDownTestSuite() { model_.reset(); }

  static LocalArtifacts local() {
    static const TextFiles text_files(REPROFUSE_BUNDLED_MODEL);
    return LocalArtifacts(bundled_files(), text_files, artifacts_);
  }
  Issuer issuer() const { return Issuer(key_, issuer_facts(model_->context(), artifacts_, "1.2.3")); }

  // A sampled answer of which every setting decides something.
  static engine::Request sampled_request() {
    engine::Request request;
    for (std::int32_t i = 0; i < 20; ++i) request.prompt.push_back(i * 37 % 1000);
    request.sampling = {
        .temperature = 3.0F, .top_k = 60, .top_p = 0.98F, .min_p = 0.001F, .repetition_penalty = 1.5F, .seed = 7};
    request.max_tokens = 24;
    request.digest = DigestKind::kTree1;
    return request;
  }

  static engine::Request short_request(std::vector<std::int32_t> prompt) {
    engine::Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = 2;
    request.digest = DigestKind::kTree1;
    return request;
  }

  static AnswerSteps answer_of(const engine::Request& request) {
    engine::Engine engine(*model_, {.kv_pages = 8}, bundled_tokenizer());
    engine.add(0, request);
    AnswerSteps answer;
    while (!engine.idle())
      for (const engine::RequestUpdate& entry : engine.step()) answer.add(entry.update);
    return answer;
  }

  Envelope issue(const engine::Request& request, const ReceiptOptions& options = {}) const {
    return issuer().issue(request, answer_of(request), options).envelope;
  }

  // The payload, signed again: what an issuer could say that lies.
  Envelope sign(std::string payload) const {
    const std::string signature = key_.sign(pre_authentication(payload));
    return {std::move(payload), key_.public_key().id(), signature};
  }

  // All that `reprofuse verify` does, with the key, and without.
  Report verify(const std::string& text, Level level = Level::kLogits, std::size_t spots = 0,
                const std::vector<Opening>& openings = {}) const {
    return verify(examine(text, "it", key_.public_key(), openings), level, spots);
  }
  static Report verify_unsigned(const std::string& text, Level level = Level::kLogits) {
    return verify(examine(text, "it", std::nullopt), level, 0);
  }
  static Report verify(Evidence evidence, Level level, std::size_t spots) {
    check_contract(evidence);
    check_needs(evidence, level, spots);
    check_artifacts(evidence, local());
    note_level(evidence, level);
    if (level >= Level::kTokens) replay_all(*model_, bundled_tokenizer(), {&evidence}, level, spots);
    return evidence.report;
  }

  static inline std::unique_ptr<model::Model> model_;
  static inline Artifacts artifacts_;
  TemporaryFolder folder_;
  SigningKey key_ = SigningKey::make(folder_.file("key"));
};

}  // namespace reprofuse::receipt
