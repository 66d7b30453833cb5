// What a checkpoint folder says, known before any weight is read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "engine/text_format.hpp"
#include "model/weights.hpp"
#include "reprofuse/sampler.hpp"

namespace reprofuse::engine {

class ModelFiles {
 public:
  explicit ModelFiles(const std::string& folder);

  const std::string& path() const { return checkpoint().folder(); }
  const TextFormat& text() const { return text_; }
  const checkpoint::Checkpoint& checkpoint() const { return source_->checkpoint(); }
  const std::shared_ptr<const model::CheckpointSource>& source() const { return source_; }
  const std::vector<std::int32_t>& stop_tokens() const { return stop_tokens_; }

  // The sampling that generation_config.json asks for: greedy unless it says do_sample.
  SamplingParams suggested_sampling() const;

 private:
  std::shared_ptr<const model::CheckpointSource> source_;
  TextFormat text_;
  std::vector<std::int32_t> stop_tokens_;
};

// The model that comes with ReproFuse.
inline constexpr std::string_view kBundledModel = "arithmetic-7m";

// Its folder: beside an installed tool, or in the source tree that the tool was built from, whatever the working
// directory. Throws kInvalidArgument, with the places, when it is in neither.
std::string bundled_model_folder();

}  // namespace reprofuse::engine
