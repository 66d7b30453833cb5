#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/option_values.hpp"
#include "cli/output_file.hpp"
#include "cli/ranks.hpp"
#include "cli/terminal.hpp"
#include "engine/model_files.hpp"
#include "model/model.hpp"
#include "study/stress.hpp"

namespace reprofuse::cli {
namespace {

constexpr std::int64_t kContext = 512;  // longer than any text of the study
constexpr auto kColumns = "{:>3} {:>5} {:>5} {:>5} {:>5} {:>8} {:>5} {:>7} {:>7} {:>9} {:>7} {:>8} {:>7}  {}\n";

struct StressArguments {
  std::optional<std::string> model;  // none: the bundled one
  std::int64_t requests = 200;
  std::int64_t schedules = 30;
  std::uint64_t seed = 1;
  std::string digest = std::string(digest_kind_name(DigestKind::kTree1));
  DeviceArguments device;
  RankArguments ranks;
  std::string json;
};

// The model once per number of threads, since a model belongs to a context. A GPU has no such number.
class Models {
 public:
  Models(const DeviceArguments& device, const engine::ModelFiles& files, std::shared_ptr<model::Team> team)
      : device_(device), files_(files), team_(std::move(team)) {}

  const model::Model& with_threads(int threads) {
    if (!takes_threads(device_.device) || device_.threads != 0) threads = device_.threads;
    std::unique_ptr<model::Model>& made = models_[threads];
    if (!made) made = make(threads);
    return *made;
  }

  // On every rank alike.
  std::unique_ptr<model::Model> make(std::int32_t threads) const {
    DeviceArguments device = device_;
    device.threads = threads;
    return std::make_unique<model::Model>(make_context(device, team_), files_.source(), kContext, Progress{},
                                          model::TeamPlace{team_, threads});
  }

 private:
  DeviceArguments device_;
  const engine::ModelFiles& files_;
  std::shared_ptr<model::Team> team_;
  std::map<int, std::unique_ptr<model::Model>> models_;
};

// The requests whose digests are not those that they have alone.
std::vector<std::size_t> moved(const study::StressOutcome& alone, const study::StressOutcome& together) {
  std::vector<std::size_t> requests;
  for (std::size_t i = 0; i < alone.digests.size(); ++i)
    if (alone.digests[i] != together.digests[i]) requests.push_back(i);
  return requests;
}

nlohmann::ordered_json to_json(const study::StressOutcome& outcome, const std::vector<std::size_t>& moved) {
  const engine::EngineOptions& engine = outcome.schedule.engine;
  return {{"max_batch", engine.max_batch},
          {"max_rows", engine.max_rows},
          {"kv_pages", engine.kv_pages},
          {"page_size", engine.page_size},
          {"prefix_cache", engine.prefix_cache},
          {"speculation", engine.speculation},
          {"threads", outcome.schedule.threads},
          {"passes", outcome.stats.passes},
          {"preemptions", outcome.stats.preemptions},
          {"cached_prompt_tokens", outcome.stats.cached_prompt_tokens},
          {"guessed_tokens", outcome.stats.guessed_tokens},
          {"accepted_tokens", outcome.stats.accepted_tokens},
          {"seconds", outcome.seconds},
          {"moved_requests", moved}};
}

void print_header() {
  fmt::print(
      "A schedule has: at most so many answers (batch) and tokens (rows) in a pass; a KV cache of so many pages of\n");
  fmt::print("so many tokens (size); a cache of prefixes, or none; tokens guessed ahead (guess); threads\n");
  fmt::print("What came of it: passes; answers preempted and computed again; tokens of prompts found in the\n");
  fmt::print("cache (cached); guesses that were right (accepted); requests with other bits than alone (moved)\n\n");
  fmt::print(kColumns, "", "batch", "rows", "pages", "size", "prefixes", "guess", "threads", "passes", "preempted",
             "cached", "accepted", "seconds", "moved");
}

void print_outcome(std::int64_t index, const study::StressOutcome& outcome, std::size_t moved,
                   const Terminal& terminal) {
  const engine::EngineOptions& engine = outcome.schedule.engine;
  fmt::print(kColumns, index, engine.max_batch, engine.max_rows, engine.kv_pages, engine.page_size,
             engine.prefix_cache ? "on" : "off", engine.speculation, outcome.schedule.threads, outcome.stats.passes,
             outcome.stats.preemptions, outcome.stats.cached_prompt_tokens, outcome.stats.accepted_tokens,
             fmt::format("{:.2f}", outcome.seconds),
             moved == 0 ? terminal.green("none") : terminal.red(fmt::format("{}", moved)));
  std::fflush(stdout);
}

// Whatever folder it is in.
bool is_bundled_model(const engine::ModelFiles& files) {
  return model_digest_of(files) == study::kStressModelDigest;
}

std::string golden_verdict(const StressArguments& arguments, const engine::ModelFiles& files, std::string_view numerics,
                           const std::string& digest, const Terminal& terminal) {
  if (arguments.model && !is_bundled_model(files))
    return "golden/ has none to compare it with: it has those of the bundled model";
  if (!find_numerics(numerics).pinned()) return "golden/ has none to compare it with: its bits may change";
  const auto golden =
      study::golden_stress_digest(numerics, arguments.seed, arguments.requests, digest_kind_of(arguments.digest));
  if (!golden) return "golden/ has none to compare it with: it has those of 16 and of 200 requests with seed 1";
  return *golden == digest ? terminal.green("the committed one: every device gives it")
                           : terminal.red("NOT the committed " + *golden);
}

void run_stress_command(const StressArguments& arguments) {
  const auto team = open_team(arguments.ranks);
  const std::string folder = model_folder(arguments.model);
  const auto make_share = [&](std::int32_t threads) {
    return Models(arguments.device, engine::ModelFiles(folder), team).make(threads);
  };
  if (run_as_follower(team, make_share)) return;
  OutputFile json(arguments.json);
  const engine::ModelFiles files(folder);
  const engine::TextFormat& text = files.text();
  const std::optional<Tokenizer> tokenizer = text.has_tokenizer() ? std::optional(text.tokenizer()) : std::nullopt;
  Models models(arguments.device, files, team);
  const Context& context = models.with_threads(1).context();
  const auto requests =
      study::stress_requests(arguments.seed, arguments.requests, files.checkpoint().config().vocab_size,
                             tokenizer.has_value(), digest_kind_of(arguments.digest));
  const Terminal terminal;
  fmt::print("{} requests on {}{}, {}{}\n", requests.size(), team ? fmt::format("{} ranks, each ", team->size()) : "",
             context.description(), context.numerics(), arguments.device.default_note());
  print_header();

  std::optional<study::StressOutcome> alone;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::size_t moved_in_all = 0;
  for (std::int64_t index = 0; index <= arguments.schedules; ++index) {
    terminal.progress(fmt::format("schedule {} of {} ...", index, arguments.schedules));
    const study::StressSchedule schedule = study::stress_schedule(arguments.seed, index);
    study::StressOutcome outcome =
        study::run_stress(models.with_threads(schedule.threads), requests, schedule, tokenizer);
    terminal.clear_progress();
    if (!alone) alone = outcome;
    const std::vector<std::size_t> changed = moved(*alone, outcome);
    moved_in_all += changed.size();
    print_outcome(index, outcome, changed.size(), terminal);
    rows.push_back(to_json(outcome, changed));
  }
  const std::string digest = study::combined_digest(alone->digests);
  const std::string verdict = golden_verdict(arguments, files, context.numerics(), digest, terminal);
  fmt::print("\n{}\n", moved_in_all == 0
                           ? terminal.green(fmt::format("no answer moved under {} schedules", arguments.schedules))
                           : terminal.red(fmt::format("{} answers moved", moved_in_all)));
  fmt::print("digest of all answers, each computed alone: {}\n{}\n", digest, verdict);
  json.write(nlohmann::ordered_json{{"version", kVersion},
                                    {"context", context.description()},
                                    {"numerics", context.numerics()},
                                    {"seed", arguments.seed},
                                    {"requests", arguments.requests},
                                    {"digest_kind", arguments.digest},
                                    {"digest", digest},
                                    {"schedules", rows}}
                 .dump(2) +
             "\n");
  require(moved_in_all == 0, "{} answers depend on what was computed beside them or how", moved_in_all);
  require(verdict.find("NOT the committed") == std::string::npos, "the digest is not the committed one");
}

}  // namespace

void add_stress_command(CLI::App& app) {
  auto arguments = std::make_shared<StressArguments>();
  CLI::App* command =
      app.add_subcommand("stress", "Answer many requests under random schedules and check that no bit changes");
  add_model_option(*command, arguments->model);
  command->add_option("--requests", arguments->requests, "Number of requests, of mixed kinds")
      ->check(whole_number<std::int64_t>(1, 100'000))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--schedules", arguments->schedules, "Number of schedules, besides one request at a time")
      ->check(whole_number<std::int64_t>(0, 100'000))
      ->type_name("N")
      ->capture_default_str();
  add_seed_option(*command, arguments->seed, "Seed of requests and schedules");
  command->add_option("--digest", arguments->digest, "What the answers are compared by")
      ->check(one_of({"tree-1", "chain-1"}))
      ->type_name("KIND")
      ->capture_default_str();
  add_device_options(*command, arguments->device);
  add_rank_options(*command, arguments->ranks);
  command->add_option("--json", arguments->json, "Also write the results to this file")->type_name("FILE");
  command->footer(
      "Schedule 0 computes each request alone. The others differ in arrival order, batch, chunk and page\n"
      "size, in memory (so small that answers are preempted and computed again), in caching of prefixes,\n"
      "in guessing ahead and in threads. With a baseline, such as --numerics bf16, answers do change.");
  command->callback([arguments] { run_stress_command(*arguments); });
}

}  // namespace reprofuse::cli
