// What stands behind the cheap handles Checkpoint, ChatTemplate and Model, which share it.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/model_files.hpp"
#include "model/model.hpp"
#include "reprofuse/chat_template.hpp"
#include "reprofuse/checkpoint.hpp"
#include "reprofuse/model.hpp"
#include "text/chat_template.hpp"

namespace reprofuse {

// The folder's files, as the engine reads them.
struct Checkpoint::Impl {
  explicit Impl(const std::string& folder);

  engine::ModelFiles files;
  ModelFacts facts;
};

// A template of its own, or that of a checkpoint.
struct ChatTemplate::Impl {
  std::function<std::string(const nlohmann::ordered_json& messages, const text::ChatVariables& given)> render;
};

// Engines keep it alive.
struct Model::Impl {
  Checkpoint checkpoint;
  model::Model model;
};

}  // namespace reprofuse
