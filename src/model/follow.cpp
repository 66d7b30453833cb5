#include "model/follow.hpp"

#include <map>

#include "model/kv_cache.hpp"
#include "model/runner.hpp"

namespace reprofuse::model {
namespace {

// Which pages hold what is the leader's business: the cache is only memory here.
struct FollowersRunner {
  FollowersRunner(const Model& model, const RunnerRecipe& recipe)
      : cache(model.context(), model.own_config(), recipe.pages, recipe.page_size),
        runner(model, cache, recipe.limits) {}

  KvCache cache;
  Runner runner;
};

}  // namespace

void follow(Team& team, const MakeModel& make_model) {
  std::map<std::int32_t, std::unique_ptr<Model>> models;
  std::map<std::int32_t, std::unique_ptr<FollowersRunner>> runners;
  while (true) {
    const Team::Message message = team.hear();
    switch (message.command) {
      case Command::kEnd: return;
      case Command::kMakeModel: models[message.number] = make_model(message.words.at(0)); break;
      case Command::kDropModel: models.erase(message.number); break;
      case Command::kMakeRunner: {
        const RunnerRecipe recipe = RunnerRecipe::from_words(message.words);
        runners[message.number] = std::make_unique<FollowersRunner>(*models.at(recipe.model), recipe);
        break;
      }
      case Command::kDropRunner: runners.erase(message.number); break;
      case Command::kPass: runners.at(message.number)->runner.follow(message.words); break;
    }
  }
}

}  // namespace reprofuse::model
