// What the handles of the C ABI hold: an object of the C++ API each, and the texts that are told by pointer.
#pragma once

#include <string>
#include <vector>

#include "reprofuse/reprofuse.h"
#include "reprofuse/reprofuse.hpp"

struct reprofuse_context {
  reprofuse::Context context;
  std::string description;
};

struct reprofuse_tokenizer {
  reprofuse::Tokenizer tokenizer;
};

struct reprofuse_chat_template {
  reprofuse::ChatTemplate chat_template;
};

struct reprofuse_checkpoint {
  reprofuse::Checkpoint checkpoint;
  std::vector<std::string> tensor_names;
};

struct reprofuse_model {
  reprofuse::Model model;
};

namespace reprofuse::capi {

ChatOptions chat_options(const reprofuse_chat_options* options);  // null: the defaults
SamplingParams sampling(const reprofuse_sampling& sampling);
reprofuse_sampling sampling(const SamplingParams& params);

}  // namespace reprofuse::capi
