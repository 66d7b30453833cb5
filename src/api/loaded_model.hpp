// What a Model shares. Engines keep it alive.
#pragma once

#include "model/model.hpp"
#include "reprofuse/model.hpp"

namespace reprofuse {

struct Model::Impl {
  Checkpoint checkpoint;
  model::Model model;
};

}  // namespace reprofuse
