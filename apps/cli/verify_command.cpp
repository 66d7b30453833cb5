#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/digest.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/generate_receipt.hpp"
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

constexpr int kUsageStatus = 2;
constexpr std::size_t kMaxSpots = std::size_t{1} << 20;

struct VerifyArguments {
  std::vector<std::string> files;
  std::optional<std::string> model;  // none: the one that comes with ReproFuse
  std::optional<std::string> date;
  std::string level{receipt::kLevelNames[static_cast<int>(Level::kLogits)]};
  std::size_t spots = 0;
  std::string key;
  std::vector<std::string> openings;
  DeviceArguments device;
};

std::vector<Evidence> examine_files(const VerifyArguments& arguments) {
  return reading_option("verify", [&] {
    std::optional<receipt::PublicKey> key;
    if (!arguments.key.empty()) key = receipt::PublicKey::load(arguments.key);
    std::vector<receipt::Opening> openings;
    for (const std::string& file : arguments.openings)
      openings.push_back(receipt::parse_opening(read_file(file), file));
    std::vector<Evidence> all;
    for (const std::string& file : arguments.files)
      all.push_back(receipt::examine(read_file(file), file, key, openings));
    return all;
  });
}

// One model folder, and what is done with it.
class Verification {
 public:
  Verification(const VerifyArguments& arguments, std::vector<Evidence>& all)
      : arguments_(arguments), level_(receipt::level_of(arguments.level)), all_(all) {}

  void run() {
    if (level_ == Level::kSignature) return note_levels();
    for (Evidence& evidence : all_) check_contract(evidence);
    try {
      const std::string folder = arguments_.model ? *arguments_.model : engine::embedded_model_folder();
      text_files_.emplace(folder);
      files_.emplace(folder);
    } catch (const Error& error) {
      refuse_open(fmt::format("model: {}", error.what()));
      return note_levels();
    }
    if (level_ == Level::kArtifacts) {
      ThreadPool pool(available_cores());
      const checkpoint::Checkpoint& checkpoint = files_->checkpoint();
      check_all(model_manifest(checkpoint, tensor_digests(checkpoint, pool)));
      return note_levels();
    }
    replay();
  }

 private:
  using Groups = std::map<std::string, std::vector<Evidence*>>;  // by contract

  void refuse_open(const std::string& problem) {
    for (Evidence& evidence : all_)
      if (evidence.report.is_open()) evidence.report.refuse(Verdict::kArtifact, problem);
  }

  void check_all(const std::string& manifest) {
    for (Evidence& evidence : all_) {
      const receipt::Artifacts claimed = evidence.receipt ? evidence.receipt->artifacts : receipt::Artifacts();
      const std::string date = arguments_.date ? *arguments_.date : claimed.date;
      const auto here = [&](engine::SpecialTokens special_tokens) {
        return artifacts_of(*files_, *text_files_, manifest, date, claimed.context, special_tokens);
      };
      const receipt::Artifacts plain = here(engine::SpecialTokens::kPlain);  // a receipt is of either mode
      const bool is_plain = plain.settings == claimed.settings;
      check_artifacts(evidence, is_plain ? plain : here(engine::SpecialTokens::kAsTokens));
    }
  }

  void note_levels() {
    for (Evidence& evidence : all_) note_level(evidence, level_);
  }

  // A model is loaded for each contract, and the first tells whether it is the right one.
  void replay() {
    Groups groups;
    for (Evidence& evidence : all_)
      if (evidence.report.is_open())
        groups[evidence.receipt ? evidence.receipt->contract : evidence.claim->contract].push_back(&evidence);
    bool is_checked = false;
    for (const auto& [contract, group] : groups) {
      DeviceArguments device = arguments_.device;
      device.numerics = contract;
      const Context context = make_context(device);
      const auto source = std::make_shared<model::HashedSource>(files_->source());
      std::optional<model::Model> model;
      try {
        model.emplace(context, source);
        if (!is_checked) check_all(source->manifest());
      } catch (const Error& error) {
        refuse_open(fmt::format("model: {}", error.what()));
      }
      if (!std::exchange(is_checked, true)) note_levels();
      const engine::TextFormat& text = files_->text();
      if (model)
        replay_all(*model, text.has_tokenizer() ? std::optional(text.tokenizer()) : std::nullopt, group, level_,
                   arguments_.spots);
    }
    if (!is_checked) note_levels();
  }

  const VerifyArguments& arguments_;
  Level level_;
  std::vector<Evidence>& all_;
  std::optional<receipt::TextFiles> text_files_;
  std::optional<engine::ModelFiles> files_;
};

void print(const std::string& file, const receipt::Report& report) {
  fmt::print("{}: {}\n", file, report.verdict_text());
  if (!report.problem.empty()) fmt::print("  wrong       {}\n", report.problem);
  for (const std::string& line : report.proven) fmt::print("  proven      {}\n", line);
  for (const std::string& line : report.not_proven) fmt::print("  not proven  {}\n", line);
}

// Each receipt that names the one before it on the command line: together they are a part of a log.
void print_chain(const std::vector<std::string>& files, const std::vector<Evidence>& all) {
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].receipt && all[i - 1].envelope && all[i].receipt->previous == all[i - 1].envelope->payload_hash())
      fmt::print("{} follows {}\n", files[i], files[i - 1]);
}

int status_of(const std::vector<Evidence>& all) {
  for (const Verdict verdict :
       {Verdict::kSignature, Verdict::kContract, Verdict::kArtifact, Verdict::kDiverged, Verdict::kNotTried})
    for (const Evidence& evidence : all)
      if (evidence.report.verdict == verdict) return static_cast<int>(verdict);
  return 0;
}

void run_verify_command(const VerifyArguments& arguments) {
  check_usage(arguments.spots == 0 || arguments.level == receipt::kLevelNames[static_cast<int>(Level::kLogits)],
              "--spot goes with --level logits");
  if (arguments.date) reading_option("--date", [&] { return text::parse_date(*arguments.date); });
  std::vector<Evidence> all = examine_files(arguments);
  const auto start = std::chrono::steady_clock::now();
  try {
    Verification(arguments, all).run();
  } catch (const Error& error) {  // what could not be tried has not diverged
    fmt::print(stderr, "reprofuse: {}\n", error.what());
    throw CLI::RuntimeError(kUsageStatus);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::size_t equal = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    print(arguments.files[i], all[i].report);
    if (all[i].report.is_open()) ++equal;
  }
  print_chain(arguments.files, all);
  fmt::print(stderr, "{} of {} equal, in {:.3f} s\n", equal, all.size(), seconds.count());
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
  command->add_option("--model", arguments->model, "Checkpoint folder (default: the one of ReproFuse)")
      ->type_name("DIR");
  command->add_option("--date", arguments->date, "What the chat template must have seen as today")->type_name("DATE");
  add_place_options(*command, arguments->device);
  command->footer(
      "Exit status: 0 equal; 1 diverged; 2 a command line that makes no sense, or nothing could be tried;\n"
      "3 signature; 4 an artifact is missing or another one: model, tokenizer, template, date, settings, prompt, "
      "roots;\n"
      "5 a contract that this software does not have.");
  command->callback([arguments] { run_verify_command(*arguments); });
}

}  // namespace reprofuse::cli
