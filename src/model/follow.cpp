#include "model/follow.hpp"

#include <map>
#include <vector>

#include "base/check.hpp"
#include "model/kv_cache.hpp"
#include "model/runner.hpp"

namespace reprofuse::model {
namespace {

// Which pages hold what is the leader's business: the cache is only memory here.
struct FollowedRunner {
  FollowedRunner(const Model& model, const std::vector<std::int32_t>& words)
      : cache(model.context(), model.own_config(), words[1], words[2]),
        runner(model, cache, {.rows = words[3], .sequences = words[4], .logit_rows = words[5]}) {}

  KvCache cache;
  Runner runner;
};

}  // namespace

void follow(Team& team, const MakeModel& make_model) {
  std::map<std::int32_t, std::unique_ptr<Model>> models;
  std::map<std::int32_t, std::unique_ptr<FollowedRunner>> runners;
  while (true) {
    const Team::Message message = team.hear();
    switch (message.order) {
      case Order::kEnd: return;
      case Order::kMakeModel: models[message.number] = make_model(message.words.at(0)); break;
      case Order::kDropModel: models.erase(message.number); break;
      case Order::kMakeRunner: {
        const Model& model = *models.at(message.words.at(0));
        runners[message.number] = std::make_unique<FollowedRunner>(model, message.words);
        break;
      }
      case Order::kDropRunner: runners.erase(message.number); break;
      case Order::kPass: runners.at(message.number)->runner.follow(message.words); break;
    }
  }
}

}  // namespace reprofuse::model
