#include <algorithm>
#include <chrono>
#include <filesystem>
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
#include "checkpoint/checkpoint.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/input_files.hpp"
#include "cli/option_values.hpp"
#include "cli/usage.hpp"
#include "cli/verify_output.hpp"
#include "engine/model_files.hpp"
#include "model/model.hpp"
#include "receipt/log.hpp"
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
  std::optional<std::string> model;  // none: the bundled one
  std::optional<std::string> date;
  std::optional<std::int64_t> context;
  std::optional<std::string> nonce;
  std::string level{receipt::kLevelNames[static_cast<int>(Level::kLogits)]};
  std::size_t spots = 0;
  std::string key;
  std::vector<std::string> openings;
  bool is_log = false;
  bool quiet = false;
  bool json = false;
  DeviceArguments device;
};

Evidence not_tried(const std::string& name, const std::string& problem) {
  Evidence evidence;
  evidence.name = name;
  evidence.report.refuse(Verdict::kNotTried, problem);
  return evidence;
}

// Calls read(): what cannot be read or held says nothing of other files.
template <typename Read>
std::vector<Evidence> trying(const std::string& name, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    return {not_tried(name, error.what())};
  } catch (const std::filesystem::filesystem_error& error) {
    return {not_tried(name, fmt::format("{}: cannot be read: {}", name, error.code().message()))};
  } catch (const std::bad_alloc&) {
    return {not_tried(name, fmt::format("{}: {}", name, kNoMemory))};
  }
}

bool is_hidden(const Evidence& evidence) {
  return evidence.report.is_open() && evidence.receipt && !evidence.claim;
}

// What opens a hidden prompt may stand beside its receipt, where `generate` puts it.
std::vector<Evidence> examine_file(const std::string& file, const std::optional<receipt::PublicKey>& key,
                                   std::vector<receipt::Opening> openings) {
  const std::string name = file == "-" ? "stdin" : file;
  return trying(name, [&] {
    const std::string text = read_input(file);
    std::vector<Evidence> all = examine_all(text, name, key, openings);
    const std::string beside = file + ".opening";
    if (!std::any_of(all.begin(), all.end(), is_hidden) || !std::filesystem::exists(beside)) return all;
    try {
      openings.push_back(receipt::parse_opening(read_file(beside), beside));
    } catch (const Error& error) {
      for (Evidence& evidence : all) evidence.opening_problem = error.what();
      return all;
    }
    return examine_all(text, name, key, openings);
  });
}

// A folder stands for the receipts that a server keeps there.
std::vector<std::string> files_of(const std::vector<std::string>& given, std::vector<Evidence>& wrong) {
  std::vector<std::string> files;
  for (const std::string& one : given) {
    std::error_code error;
    if (!std::filesystem::is_directory(one, error)) {
      files.push_back(one);
      continue;
    }
    for (Evidence& evidence : trying(one, [&]() -> std::vector<Evidence> {
           const std::vector<std::string> kept = receipt::receipts_in(one);
           require(!kept.empty(), "{}: is a folder without receipts, such as 000000000001.receipt.json", one);
           files.insert(files.end(), kept.begin(), kept.end());
           return {};
         }))
      wrong.push_back(std::move(evidence));
  }
  return files;
}

std::vector<Evidence> examine_files(const VerifyArguments& arguments) {
  std::optional<receipt::PublicKey> key;
  if (!arguments.key.empty()) key = reading_option("--key", [&] { return receipt::PublicKey::load(arguments.key); });
  std::vector<receipt::Opening> openings;
  for (const std::string& file : arguments.openings)
    openings.push_back(reading_option("--opening", [&] { return receipt::parse_opening(read_file(file), file); }));
  std::vector<Evidence> all;
  for (const std::string& file : files_of(arguments.files, all))
    for (Evidence& evidence : examine_file(file, key, openings)) all.push_back(std::move(evidence));
  return all;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One model folder, and what is done with it.
class Verification {
 public:
  Verification(const VerifyArguments& arguments, std::vector<Evidence>& all)
      : arguments_(arguments), level_(receipt::level_of(arguments.level)) {
    for (Evidence& evidence : all) all_.push_back(&evidence);
  }

  double load_seconds() const { return load_seconds_; }
  const std::vector<Evidence*>& all() const { return all_; }
  std::optional<Tokenizer> tokenizer() const {
    return files_ && files_->text().has_tokenizer() ? std::optional(files_->text().tokenizer()) : std::nullopt;
  }

  void run() {
    for (Evidence* evidence : all_) {
      check_nonce(*evidence, arguments_.nonce);
      if (level_ > Level::kSignature) check_contract(*evidence);
      check_needs(*evidence, level_, arguments_.spots);
    }
    const bool is_open =
        std::any_of(all_.begin(), all_.end(), [](const Evidence* one) { return one->report.is_open(); });
    if (level_ == Level::kSignature || !is_open) return note_levels(all_);
    const auto start = std::chrono::steady_clock::now();
    try {
      const std::string folder = model_folder(arguments_.model);
      text_files_.emplace(folder);
      files_.emplace(folder);
    } catch (const Error& error) {
      refuse_open(all_, Verdict::kArtifact, fmt::format("model: {}", error.what()));
      return note_levels(all_);
    }
    load_seconds_ += seconds_since(start);
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
    replay_all(*model, tokenizer(), group, level_, arguments_.spots);
  }

  void compare(const Group& group, const std::string& manifest) {
    const std::string date = arguments_.date ? *arguments_.date : text::to_string(text::DateTime{});
    const std::int64_t context = arguments_.context.value_or(files_->checkpoint().config().max_positions);
    receipt::LocalArtifacts here(*files_, *text_files_, artifacts_of(*files_, *text_files_, manifest, date, context));
    here.any_date = !arguments_.date;
    here.any_context = !arguments_.context;
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

int status_of(const std::vector<Evidence*>& all, Verdict of_log) {
  receipt::Report log;
  log.verdict = of_log;
  std::vector<const receipt::Report*> reports = {&log};
  for (const Evidence* one : all) reports.push_back(&one->report);
  return static_cast<int>(decisive(reports).verdict);
}

void check_arguments(VerifyArguments& arguments) {
  const auto at_least = [&](Level level) { return receipt::level_of(arguments.level) >= level; };
  check_usage(arguments.spots == 0 || at_least(Level::kLogits), "--spot goes with --level logits");
  check_usage((!arguments.date && !arguments.context) || at_least(Level::kArtifacts),
              "--date and --context go with --level artifacts, or further");
  if (arguments.date)
    arguments.date = reading_option("--date", [&] { return text::to_string(text::parse_date(*arguments.date)); });
}

void run_verify_command(VerifyArguments arguments) {
  check_arguments(arguments);
  const auto start = std::chrono::steady_clock::now();
  std::vector<Evidence> all = examine_files(arguments);
  Verification verification(arguments, all);
  verification.run();
  const receipt::LogReport log = check_log(verification.all(), arguments.is_log);
  const int status = status_of(verification.all(), arguments.is_log ? log.verdict : Verdict::kEqual);
  VerifyOutput output{.all = verification.all(),
                      .tokenizer = verification.tokenizer(),
                      .log = arguments.is_log ? std::optional(log.text) : std::nullopt,
                      .extent = arguments.spots > 0 ? fmt::format("hold, at {} steps each or all", arguments.spots)
                                : arguments.level == receipt::kLevelNames[static_cast<int>(Level::kLogits)]
                                    ? "equal"
                                    : "hold as far as " + arguments.level,
                      .status = status,
                      .load_seconds = verification.load_seconds(),
                      .check_seconds = 0};
  output.check_seconds = seconds_since(start) - verification.load_seconds();
  if (arguments.json)
    output.print_json();
  else
    output.print(arguments.quiet);
  if (status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_verify_command(CLI::App& app) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command = app.add_subcommand("verify", "Check receipts, and replies of a server, by computing them again");
  command
      ->add_option(
          "FILE", arguments->files,
          "Receipts, or replies with return_token_ids and digest; - is stdin, and a folder the receipts that a "
          "server keeps there")
      ->required();
  command->add_option("--level", arguments->level, "How far to go; each includes those before it")
      ->check(one_of({"signature", "artifacts", "tokens", "logits"}))
      ->type_name("LEVEL")
      ->capture_default_str();
  command
      ->add_option("--spot", arguments->spots,
                   "Compute only N steps of each, chosen at random; needs their roots, unless N are all")
      ->check(whole_number<std::size_t>(1, kMaxSpots))
      ->type_name("N");
  command->add_option("--key", arguments->key, "The public key that must have signed (default: the one it names)")
      ->type_name("FILE");
  command
      ->add_option("--opening", arguments->openings,
                   "What opens a hidden prompt (default: FILE.opening, if it is there); may be given again")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command->add_flag("--log", arguments->is_log, "Each receipt must follow the one before it, by the same key");
  command->add_option("--nonce", arguments->nonce, "The nonce that the receipt must have")->type_name("TEXT");
  command->add_flag("--quiet", arguments->quiet, "One line for each receipt");
  command->add_flag("--json", arguments->json, "Print one JSON object and nothing else")->excludes("--quiet");
  add_model_option(*command, arguments->model);
  command->add_option("--date", arguments->date, "What the chat template must have seen as today")->type_name("DATE");
  command->add_option("--context", arguments->context, "The longest text that the issuer must have allowed")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N");
  add_device_only_options(*command, arguments->device.device, arguments->device.isa, arguments->device.threads);
  command->footer(
      "Exit status: 0 equal, or right as far as it was looked at; 1 diverged; 2 a command line that makes no sense, or "
      "a check that could not be tried;\n"
      "3 signature; 4 an artifact is missing or another one: model, tokenizer, template, date, settings, nonce, "
      "opening, roots;\n"
      "5 a contract that this software does not have.");
  command->callback([arguments] { run_verify_command(*arguments); });
}

}  // namespace reprofuse::cli
