// Run by mpirun: the committed digests of whole models, and answers under load, over as many ranks as it has started.
// Usage: rank_cases [DEVICE | broken]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "engine/model_files.hpp"
#include "model/follow.hpp"
#include "ops/contract.hpp"
#include "parallel/communicator.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/models.hpp"
#include "study/stress.hpp"
#include "support/expected_digest.hpp"

namespace reprofuse {
namespace {

constexpr std::int64_t kStressRequests = 16;
constexpr std::int32_t kStressRecipe = 1000;

std::string device = "cpu";
int failures = 0;

void expect_equal(const std::string& found, const std::string& expected, const std::string& what) {
  if (found == expected) return;
  ++failures;
  std::printf("FAILED: %s: %s, not %s\n", what.c_str(), found.c_str(), expected.c_str());
}

// Recipes count all cases of the first contract, then all of the second, and so on; then stress by each contract.
std::unique_ptr<model::Model> make(std::int32_t recipe, const std::shared_ptr<model::Team>& team) {
  const auto cases = study::model_cases();
  const auto count = static_cast<std::int32_t>(cases.size());
  const bool is_stress = recipe >= kStressRecipe;
  const auto contract = static_cast<std::size_t>(is_stress ? recipe - kStressRecipe : recipe / count);
  const std::string_view numerics = contracts()[contract].name;
  const Context context = device == "cpu" ? Context::cpu(numerics, {}, 1) : Context::open(device, numerics);
  if (!is_stress) return study::make_model(context, cases[static_cast<std::size_t>(recipe % count)], {team, recipe});
  return std::make_unique<model::Model>(context, engine::ModelFiles(engine::bundled_model_folder()).source(), 512,
                                        Progress{}, model::TeamPlace{team, recipe});
}

void check_cases(const std::shared_ptr<model::Team>& team) {
  std::int32_t recipe = 0;
  for (const Numerics& contract : contracts())
    for (const study::ModelCase& spec : study::model_cases()) {
      const auto model = make(recipe++, team);
      const std::string expected = study::expected_digest(contract, spec);
      std::vector<study::PassPlan> plans = {{}};
      if (contract.name == kDefaultNumerics) plans.push_back({.chunk = 9, .page_size = 32, .companions = 3});
      for (const study::PassPlan& plan : plans)
        expect_equal(study::logits_digest(*model, spec, plan), expected,
                     spec.name + " by " + std::string(contract.name));
    }
}

// Prefill in chunks, decode, sampling, log-probabilities, prefixes from the cache, guesses and preemption.
void check_answers(const std::shared_ptr<model::Team>& team) {
  const engine::ModelFiles files(engine::bundled_model_folder());
  const std::optional<Tokenizer> tokenizer =
      files.text().has_tokenizer() ? std::optional(files.text().tokenizer()) : std::nullopt;
  const auto requests =
      study::stress_requests(1, kStressRequests, files.checkpoint().config().vocab_size, tokenizer.has_value());
  std::int64_t preemptions = 0, cached = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(contracts().size()); ++i) {
    const std::string name(contracts()[static_cast<std::size_t>(i)].name);
    const auto golden = study::golden_stress_digest(name, 1, kStressRequests);
    if (!golden) continue;
    const auto model = make(kStressRecipe + i, team);
    if (i >= 2 && team->size() != 2) continue;           // the two forms with other caches run there
    constexpr std::int64_t kSchedules[] = {8, 4, 2, 6};  // small caches, prefixes, guesses
    const auto outcome = study::run_stress(*model, requests, study::stress_schedule(1, kSchedules[i % 4]), tokenizer);
    expect_equal(study::combined_digest(outcome.digests), *golden, "answers by " + name);
    preemptions += outcome.stats.preemptions;
    cached += outcome.stats.cached_prompt_tokens;
  }
  if (preemptions == 0 || cached == 0) expect_equal("none", "some", "preemptions and prefixes from the cache");
}

// While rank 1 waits for the first, a thread of rank 0 breaks off: the call that waits ends, and so do those after it.
int check_broken() {
  using parallel::Wait;
  const auto communicator = parallel::open_mpi(std::chrono::seconds(60));
  std::vector<std::uint32_t> words(2);
  const std::vector<std::int64_t> rank_words = {1, 1};
  communicator->all_gather(words.data(), rank_words, Wait::kBounded);  // the control: nothing is broken yet
  communicator->barrier();
  if (communicator->rank() != 0) {
    communicator->broadcast(words.data(), 1, Wait::kEndless);
    return 1;
  }
  const std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    communicator->break_off();
  });
  const std::function<void()> calls[] = {
      [&] { communicator->all_gather(words.data(), rank_words, Wait::kEndless); },  // waits at first
      [&] { communicator->all_gather(words.data(), rank_words, Wait::kEndless); },
      [&] { communicator->gather_to_first(words.data(), rank_words); },
      [&] { communicator->broadcast(words.data(), 1, Wait::kEndless); },
      [&] { communicator->barrier(); },
  };
  int refused = 0;
  for (const auto& call : calls) try {
      call();
    } catch (const parallel::RankFailure&) {
      ++refused;
    }
  std::printf("refused %d of %zu calls\n", refused, std::size(calls));
  return 0;
}

int run() {
  if (device != "cpu") try {
      Context::open(device);
    } catch (const Error& error) {
      std::printf("skipped: %s\n", error.what());
      return 0;
    }
  const auto team = std::make_shared<model::Team>(parallel::open_mpi(std::chrono::seconds(60)), "test");
  if (!team->leads()) {
    model::follow(*team, [&](std::int32_t recipe) { return make(recipe, team); });
    return 0;
  }
  check_cases(team);
  check_answers(team);
  std::printf("%d ranks, gathered %s: %d failures\n", team->size(), team->gather_transport().description.c_str(),
              failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace reprofuse

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string_view(argv[1]) == "broken") return reprofuse::check_broken();
    if (argc > 1) reprofuse::device = argv[1];
    return reprofuse::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
