#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/digest.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/input_files.hpp"
#include "cli/option_values.hpp"
#include "cli/usage.hpp"
#include "engine/model_files.hpp"
#include "model/model.hpp"
#include "receipt/replay.hpp"

namespace reprofuse::cli {
namespace {

using receipt::Evidence;
using receipt::Level;
using receipt::Verdict;

constexpr std::string_view kNoMemory = "there is not enough memory";
constexpr std::size_t kMaxSpots = std::size_t{1} << 20;

struct VerifyArguments {
  std::vector<std::string> files;
  std::optional<std::string> model;  // none: the one that comes with ReproFuse
  std::optional<std::string> date;
  std::string level{receipt::kLevelNames[static_cast<int>(Level::kLogits)]};
  std::size_t spots = 0;
  std::string key;
  std::vector<std::string> openings;
  bool is_log = false;
  DeviceArguments device;
};

// What a file, or a choice of one, is called.
struct Named {
  std::string name;
  Evidence evidence;
};

Evidence not_tried(std::string problem) {
  Evidence evidence;
  evidence.report.refuse(Verdict::kNotTried, std::move(problem));
  return evidence;
}

std::vector<Evidence> examine_file(const std::string& file, const std::optional<receipt::PublicKey>& key,
                                   const std::vector<receipt::Opening>& openings) {
  std::string problem;
  try {
    return examine_all(read_file(file), file, key, openings);
  } catch (const Error& error) {
    problem = error.what();
  } catch (const std::bad_alloc&) {
    problem = fmt::format("{}: {}", file, kNoMemory);
  }
  return {not_tried(problem)};
}

std::vector<Named> examine_files(const VerifyArguments& arguments) {
  std::optional<receipt::PublicKey> key;
  if (!arguments.key.empty()) key = reading_option("--key", [&] { return receipt::PublicKey::load(arguments.key); });
  std::vector<receipt::Opening> openings;
  for (const std::string& file : arguments.openings)
    openings.push_back(reading_option("--opening", [&] { return receipt::parse_opening(read_file(file), file); }));
  std::vector<Named> all;
  for (const std::string& file : arguments.files)
    for (Evidence& evidence : examine_file(file, key, openings)) {
      std::string name = evidence.part.empty() ? file : fmt::format("{}, {}", file, evidence.part);
      all.push_back({std::move(name), std::move(evidence)});
    }
  return all;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One model folder, and what is done with it.
class Verification {
 public:
  Verification(const VerifyArguments& arguments, std::vector<Named>& all)
      : arguments_(arguments), level_(receipt::level_of(arguments.level)) {
    for (Named& named : all) all_.push_back(&named.evidence);
  }

  double load_seconds() const { return load_seconds_; }

  void run() {
    if (level_ == Level::kSignature) return note_levels(all_);
    for (Evidence* evidence : all_) check_contract(*evidence);
    try {
      const std::string folder = arguments_.model ? *arguments_.model : engine::bundled_model_folder();
      text_files_.emplace(folder);
      files_.emplace(folder);
    } catch (const Error& error) {
      refuse_open(all_, Verdict::kArtifact, fmt::format("model: {}", error.what()));
      return note_levels(all_);
    }
    for (const auto& [contract, group] : groups()) try_group(contract, group);
    for (Evidence* evidence : all_)
      if (!is_noted_.contains(evidence)) note_level(*evidence, level_);
  }

 private:
  using Group = std::vector<Evidence*>;

  std::map<std::string, Group> groups() const {  // by contract
    std::map<std::string, Group> groups;
    for (Evidence* evidence : all_)
      if (evidence->report.is_open())
        groups[evidence->receipt ? evidence->receipt->contract : evidence->claim->contract].push_back(evidence);
    return groups;
  }

  static void refuse_open(const Group& group, Verdict verdict, const std::string& problem) {
    for (Evidence* evidence : group)
      if (evidence->report.is_open()) evidence->report.refuse(verdict, problem);
  }

  // What fails here, and not in the receipts, has not diverged.
  void try_group(const std::string& contract, const Group& group) {
    try {
      if (level_ == Level::kArtifacts)
        compare_files(group);
      else
        replay(contract, group);
    } catch (const Error& error) {
      refuse_open(group, Verdict::kNotTried, error.what());
    } catch (const std::bad_alloc&) {
      refuse_open(group, Verdict::kNotTried, std::string(kNoMemory));
    }
  }

  void compare_files(const Group& group) {
    if (manifest_.empty()) {
      ThreadPool pool(available_cores());
      const checkpoint::Checkpoint& checkpoint = files_->checkpoint();
      manifest_ = model_manifest(checkpoint, tensor_digests(checkpoint, pool));
    }
    compare(group, manifest_);
  }

  // A model is loaded for each contract.
  void replay(const std::string& contract, const Group& group) {
    DeviceArguments device = arguments_.device;
    device.numerics = contract;
    const auto start = std::chrono::steady_clock::now();
    const Context context = make_context(device);
    const auto source = std::make_shared<model::HashedSource>(files_->source());
    std::optional<model::Model> model;
    try {
      model.emplace(context, source);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      return refuse_open(group, Verdict::kArtifact, fmt::format("model: {}", error.what()));
    }
    load_seconds_ += seconds_since(start);
    compare(group, source->manifest());
    const engine::TextFormat& text = files_->text();
    replay_all(*model, text.has_tokenizer() ? std::optional(text.tokenizer()) : std::nullopt, group, level_,
               arguments_.spots);
  }

  void compare(const Group& group, const std::string& manifest) {
    const std::string date = arguments_.date ? *arguments_.date : text::to_string(text::DateTime{});
    const std::int64_t longest = files_->checkpoint().config().max_positions;
    receipt::AtHand here(*files_, *text_files_, artifacts_of(*files_, *text_files_, manifest, date, longest));
    here.any_date = !arguments_.date;
    here.any_context = true;
    for (Evidence* evidence : group) check_artifacts(*evidence, here);
    note_levels(group);
  }

  void note_levels(const Group& group) {
    for (Evidence* evidence : group)
      if (is_noted_.insert(evidence).second) note_level(*evidence, level_);
  }

  const VerifyArguments& arguments_;
  Level level_;
  Group all_;
  std::set<const Evidence*> is_noted_;
  std::optional<receipt::TextFiles> text_files_;
  std::optional<engine::ModelFiles> files_;
  std::string manifest_;  // empty: not read yet
  double load_seconds_ = 0;
};

void print(const std::string& file, const receipt::Report& report) {
  fmt::print("{}: {}\n", file, report.verdict_text());
  if (!report.problem.empty()) fmt::print("  wrong       {}\n", report.problem);
  for (const std::string& line : report.proven) fmt::print("  proven      {}\n", line);
  for (const std::string& line : report.not_proven) fmt::print("  not proven  {}\n", line);
}

// Each receipt that names the one before it on the command line: together they are a part of a log. With --log each
// must, and by the same key.
void check_chain(std::vector<Named>& all, bool is_log) {
  const Named* before = nullptr;
  bool was_verified = false;
  for (Named& one : all) {
    receipt::Report& report = one.evidence.report;
    const Named* const previous = std::exchange(before, &one);
    const bool previous_was_verified = std::exchange(was_verified, report.is_open());
    if (!report.is_open()) continue;
    if (!one.evidence.receipt) {
      if (is_log) report.refuse(Verdict::kDiverged, "previous: a reply without a receipt is no part of a log");
      continue;
    }
    const receipt::Receipt& receipt = *one.evidence.receipt;
    const bool follows = previous_was_verified && previous->evidence.receipt &&
                         receipt.previous == previous->evidence.envelope->payload_hash() &&
                         receipt.issuer == previous->evidence.receipt->issuer;
    if (follows)
      report.proven.push_back(fmt::format("previous: it follows {}", previous->name));
    else if (is_log && previous != nullptr)
      report.refuse(Verdict::kDiverged, fmt::format("previous: it does not follow {}", previous->name));
    else
      report.not_proven.emplace_back(receipt.previous ? "previous: the receipt before it is not here to compare with"
                                                      : "that it begins a log: the signer says so");
  }
}

int status_of(const std::vector<Named>& all) {
  constexpr Verdict kOrder[] = {Verdict::kSignature, Verdict::kContract, Verdict::kArtifact, Verdict::kDiverged,
                                Verdict::kNotTried};
  for (const Verdict verdict : kOrder)
    for (const Named& one : all)
      if (one.evidence.report.verdict == verdict) return static_cast<int>(verdict);
  return 0;
}

void run_verify_command(VerifyArguments arguments) {
  check_usage(arguments.spots == 0 || arguments.level == receipt::kLevelNames[static_cast<int>(Level::kLogits)],
              "--spot goes with --level logits");
  if (arguments.date)
    arguments.date = reading_option("--date", [&] { return text::to_string(text::parse_date(*arguments.date)); });
  const auto start = std::chrono::steady_clock::now();
  std::vector<Named> all = examine_files(arguments);
  Verification verification(arguments, all);
  verification.run();
  check_chain(all, arguments.is_log);
  const double seconds = seconds_since(start) - verification.load_seconds();
  std::size_t equal = 0;
  for (const Named& one : all) {
    print(one.name, one.evidence.report);
    if (one.evidence.report.is_open()) ++equal;
  }
  fmt::print(stderr, "{} of {} equal; loaded in {:.3f} s, checked in {:.3f} s\n", equal, all.size(),
             verification.load_seconds(), seconds);
  if (const int status = status_of(all); status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_verify_command(CLI::App& app) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command = app.add_subcommand("verify", "Check receipts, and replies of a server, by computing them again");
  command->add_option("FILE", arguments->files, "Receipts, or replies with return_token_ids and digest")->required();
  command->add_option("--level", arguments->level, "How far to go; each includes those before it")
      ->check(one_of({"signature", "artifacts", "tokens", "logits"}))
      ->type_name("LEVEL")
      ->capture_default_str();
  command->add_option("--spot", arguments->spots, "Compute only N steps of each, chosen at random; needs their roots")
      ->check(whole_number<std::size_t>(1, kMaxSpots))
      ->type_name("N");
  command->add_option("--key", arguments->key, "The public key that must have signed (default: the one it names)")
      ->type_name("FILE");
  command->add_option("--opening", arguments->openings, "What opens a hidden prompt; may be given again")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command->add_flag("--log", arguments->is_log, "Each receipt must follow the one before it, by the same key");
  command->add_option("--model", arguments->model, "Checkpoint folder (default: the one of ReproFuse)")
      ->type_name("DIR");
  command->add_option("--date", arguments->date, "What the chat template must have seen as today")->type_name("DATE");
  add_place_options(*command, arguments->device);
  command->footer(
      "Exit status: 0 equal; 1 diverged; 2 a command line that makes no sense, or a check that could not be tried;\n"
      "3 signature; 4 an artifact is missing or another one: model, tokenizer, template, date, settings, prompt, "
      "roots;\n"
      "5 a contract that this software does not have.");
  command->callback([arguments] { run_verify_command(*arguments); });
}

}  // namespace reprofuse::cli
