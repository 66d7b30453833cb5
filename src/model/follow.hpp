// The ranks beside the first: each makes its part of the models that the leader makes, and computes the passes that the
// leader computes, until the leader has no more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "model/model.hpp"
#include "model/team.hpp"

namespace reprofuse::model {

// The part of a model for this rank; `recipe` is what the leader's TeamPlace says.
using MakeModel = std::function<std::unique_ptr<Model>(std::int32_t recipe)>;

void follow(Team& team, const MakeModel& make_model);

}  // namespace reprofuse::model
