// What the ranks beside the first do, in the commands of the first (team.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "model/model.hpp"
#include "model/team.hpp"

namespace reprofuse::model {

// The share of a model for this rank; `recipe` is what the leader's TeamPlace says.
using MakeModel = std::function<std::unique_ptr<Model>(std::int32_t recipe)>;

// Each makes its share of the models that the leader makes, and computes the passes that the leader computes, until the
// leader has no more.
void follow(Team& team, const MakeModel& make_model);

}  // namespace reprofuse::model
