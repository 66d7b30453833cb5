// What the tests of the public interfaces share: they see the public headers and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reprofuse/reprofuse.h"
#include "reprofuse/reprofuse.hpp"

namespace reprofuse::capi {

inline reprofuse_status make_context(const char* device, const char* numerics, const char* isa, int threads,
                                     reprofuse_context** context) {
  reprofuse_context_options options;
  EXPECT_EQ(reprofuse_context_options_init(&options, sizeof options), REPROFUSE_OK);
  options.device = device;
  options.numerics = numerics;
  options.isa = isa;
  options.threads = threads;
  return reprofuse_context_create(&options, context);
}

inline const nlohmann::json& golden() {
  static const nlohmann::json answers = nlohmann::json::parse(std::ifstream(REPROFUSE_GOLDEN_ANSWERS));
  return answers;
}

inline std::vector<std::int32_t> golden_prompt() {
  return golden()["prompt_tokens"].get<std::vector<std::int32_t>>();
}

inline std::string golden_text() {
  return REPROFUSE_HAVE_TEXT ? golden()["text"].get<std::string>() : "";
}

// Loaded once: most of what a test costs.
inline const Model& small_model() {
  static const Model model = Model::load(Context::cpu(), Checkpoint::open(REPROFUSE_BUNDLED_MODEL));
  return model;
}

// The same through the C ABI.
struct CModel {
  CModel() {
    EXPECT_EQ(reprofuse_context_create(nullptr, &context), REPROFUSE_OK) << reprofuse_last_error();
    EXPECT_EQ(reprofuse_checkpoint_open(REPROFUSE_BUNDLED_MODEL, &checkpoint), REPROFUSE_OK) << reprofuse_last_error();
    EXPECT_EQ(reprofuse_model_load(context, checkpoint, nullptr, &model), REPROFUSE_OK) << reprofuse_last_error();
  }
  ~CModel() {
    reprofuse_model_destroy(model);
    reprofuse_checkpoint_destroy(checkpoint);
    reprofuse_context_destroy(context);
  }
  CModel(const CModel&) = delete;
  CModel& operator=(const CModel&) = delete;

  reprofuse_context* context = nullptr;
  reprofuse_checkpoint* checkpoint = nullptr;
  reprofuse_model* model = nullptr;
};

// Full mantissas from a congruential generator, so that sums round at every step.
inline std::vector<float> operand(std::uint32_t seed, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(seed >> 7) - (1 << 24)) * 0x1p-24F;
  }
  return values;
}

inline Request golden_request() {
  Request request;
  request.prompt = golden_prompt();
  request.digest = reprofuse::DigestKind::kTree1;
  return request;
}

// All updates of a request through the C ABI.
struct Collected {
  std::string text, digest, error;
  std::vector<std::int32_t> tokens;
  std::vector<LogitsRoot> logits_roots;
  std::int32_t error_status = REPROFUSE_OK;
  std::int32_t finish_reason = REPROFUSE_FINISH_NONE;
  std::int32_t stop_token = -1;
};

inline Collected collect(reprofuse_answers* answers) {
  Collected all;
  reprofuse_update update;
  do {
    EXPECT_EQ(reprofuse_answers_next(answers, 60000, &update, sizeof update), REPROFUSE_OK) << reprofuse_last_error();
    if (update.kind != REPROFUSE_NEXT_UPDATE) continue;
    EXPECT_EQ(std::string(update.text).size(), update.text_bytes);
    all.text += update.text;
    for (std::size_t i = 0; i < update.token_count; ++i) all.tokens.push_back(update.tokens[i].id);
    EXPECT_EQ(update.logits_roots == nullptr, update.logits_root_count == 0);
    for (std::size_t i = 0; i < update.logits_root_count; ++i)
      std::copy_n(update.logits_roots + 32 * i, 32, all.logits_roots.emplace_back().begin());
    if (update.finish_reason == REPROFUSE_FINISH_NONE) continue;
    all.finish_reason = update.finish_reason;
    all.stop_token = update.stop_token;
    all.digest = update.digest;
    all.error = update.error;
    all.error_status = update.error_status;
  } while (update.kind != REPROFUSE_NEXT_FINISHED);
  return all;
}

inline reprofuse_request c_request(const std::vector<std::int32_t>& prompt) {
  reprofuse_request request;
  EXPECT_EQ(reprofuse_request_init(&request, sizeof request), REPROFUSE_OK);
  request.prompt = prompt.data();
  request.prompt_count = prompt.size();
  return request;
}

// What a call says when it fails as it should.
inline std::string error_text(reprofuse_status status, reprofuse_status expected) {
  EXPECT_EQ(status, expected) << reprofuse_last_error();
  return reprofuse_last_error();
}

template <typename Call>
std::string thrown(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace reprofuse::capi
