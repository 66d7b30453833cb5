// A pass among several ranks: the words in which rank 0 sends it, who owns which token, and what the others do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/exchange.hpp"
#include "model/model.hpp"
#include "model/runner.hpp"
#include "model/team.hpp"

namespace reprofuse::model {

std::vector<std::int32_t> to_words(const PassBatch& pass);
PassBatch pass_from_words(std::span<const std::int32_t> words);

// The tokens by the ranks that own their rows of the embedding: TokenOwners (model.hpp), in host memory.
struct HostTokenOwners {
  HostTokenOwners(const Exchange& exchange, std::span<const std::int32_t> tokens);
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> own_tokens, places;
};

// The share of a model for this rank; `recipe` is what the leader's TeamPlace says.
using MakeModel = std::function<std::unique_ptr<Model>(std::int32_t recipe)>;

// The ranks beside the first: each makes its share of the models that the leader makes, and computes the passes that
// the leader computes, until the leader has no more.
void follow(Team& team, const MakeModel& make_model);

}  // namespace reprofuse::model
