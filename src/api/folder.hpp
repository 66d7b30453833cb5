// What a Checkpoint shares: the folder's files, as the engine reads them.
#pragma once

#include "engine/model_files.hpp"
#include "reprofuse/checkpoint.hpp"

namespace reprofuse {

struct Checkpoint::Impl {
  explicit Impl(const std::string& folder);

  engine::ModelFiles files;
  ModelFacts facts;
};

}  // namespace reprofuse
