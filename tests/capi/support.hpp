// What the tests of the public interfaces share: they see the public headers and nothing else.
#pragma once

#include <gtest/gtest.h>

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
