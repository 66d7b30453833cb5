#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/terminal.hpp"
#include "cli/trace_text.hpp"
#include "cli/usage.hpp"

namespace reprofuse::cli {
namespace {

struct DiffArguments {
  TextArguments text;
  std::string a, b;
  bool json = false;
};

// A file that is there, or else DEVICE/NUMERICS, or DEVICE alone, by the numerics of the other side.
struct Side {
  std::optional<study::Trace> saved;
  DeviceArguments device;
};

Side side_of(const std::string& text) {
  if (std::filesystem::is_regular_file(text)) return {.saved = study::read_trace(text), .device = {}};
  Side side;
  const std::size_t slash = text.find('/');
  side.device.device = text.substr(0, slash);
  const bool names_numerics = slash != std::string::npos;
  if (names_numerics) side.device.numerics = text.substr(slash + 1);
  const std::vector<std::string_view> known = numerics_names();
  const bool is_known = is_device()(side.device.device).empty() &&
                        (!names_numerics || std::find(known.begin(), known.end(), side.device.numerics) != known.end());
  check_usage(is_known, fmt::format("'{}' is neither a file nor DEVICE/NUMERICS, such as cpu/{}", text, known.front()));
  return side;
}

// Where neither side names any, both compute by the default of the first.
void complete_numerics(Side& a, Side& b) {
  const auto named = [](const Side& side) { return side.saved ? side.saved->numerics : side.device.numerics; };
  if (named(a).empty()) a.device.numerics = named(b).empty() ? a.device.chosen_numerics() : named(b);
  if (named(b).empty()) b.device.numerics = named(a);
}

std::string shown(const std::array<study::Candidate, 2>& likeliest, const engine::TextFormat* text) {
  const auto name = [&](const study::Candidate& candidate) {
    return fmt::format("{}{}", candidate.token, text != nullptr ? text_of(candidate.token, *text) : "");
  };
  return fmt::format("{} before {}, by {:.9g}", name(likeliest[0]), name(likeliest[1]),
                     likeliest[0].logit - likeliest[1].logit);
}

void print(const study::Comparison& comparison, const engine::TextFormat* text, bool has_saved) {
  const Terminal terminal;
  if (comparison.text_differs_at)
    fmt::print("The texts differ from position {} on; steps are compared before it.\n", *comparison.text_differs_at);
  if (comparison.only_a + comparison.only_b > 0)
    fmt::print("Not compared: {} that A alone has, {} that B alone has.\n", counted(comparison.only_a, "step"),
               counted(comparison.only_b, "step"));
  if (!comparison.first) {
    const std::string equal = counted(comparison.positions, "step") + ", every op the same bits";
    fmt::print("{}\n", terminal.green(equal));
    return;
  }
  const study::Difference& first = *comparison.first;
  fmt::print("{}: position {}, {}\n", terminal.red("First difference"), first.position, first.op);
  if (!first.other.empty()) fmt::print("  {}\n", first.other);
  if (first.element)
    fmt::print("  element {}: 0x{:08x} ({:.9g}) in A, 0x{:08x} ({:.9g}) in B; {} of {} elements differ\n",
               *first.element, first.word_a, first.value_a, first.word_b, first.value_b, first.differing,
               first.elements);
  else if (first.other.empty())
    fmt::print("  which element is not known: a trace has digests alone\n");
  if (first.before.empty())
    fmt::print("  it is the first op\n");
  else
    fmt::print("  the op before it, {}, left the same bits\n", first.before);
  if (first.positions_unseen > 0 && first.op.ends_with(".attention"))
    fmt::print("  it also reads keys and values of {} before, not compared here; {} --positions 0-{} compares them\n",
               counted(first.positions_unseen, "position"), has_saved ? "a trace with" : "diff with", first.position);
  fmt::print("{} of {} steps have the same bits.\n", comparison.equal, comparison.positions);
  if (comparison.flip)
    fmt::print("{}: position {}\n  A {}\n  B {}\n", terminal.red("First other token"), comparison.flip->position,
               shown(comparison.flip->a, text), shown(comparison.flip->b, text));
  else
    fmt::print("Every step chooses the same token.\n");
}

nlohmann::ordered_json to_json(const std::array<study::Candidate, 2>& likeliest) {
  return {{"token", likeliest[0].token},
          {"second", likeliest[1].token},
          {"margin", likeliest[0].logit - likeliest[1].logit}};
}

nlohmann::ordered_json to_json(const study::Comparison& comparison) {
  nlohmann::ordered_json json = {{"steps", comparison.positions}, {"equal", comparison.equal},
                                 {"only_a", comparison.only_a},   {"only_b", comparison.only_b},
                                 {"text_differs_at", nullptr},    {"first", nullptr}};
  if (comparison.text_differs_at) json["text_differs_at"] = *comparison.text_differs_at;
  if (const auto& first = comparison.first) {
    json["first"] = {{"position", first->position},
                     {"op", first->op},
                     {"before", first->before},
                     {"positions_unseen", first->positions_unseen}};
    if (!first->other.empty()) json["first"]["other"] = first->other;
    if (first->element)
      json["first"].update({{"element", *first->element},
                            {"a", fmt::format("{:08x}", first->word_a)},
                            {"b", fmt::format("{:08x}", first->word_b)},
                            {"differing", first->differing},
                            {"elements", first->elements}});
  }
  json["flip"] = nullptr;
  if (const auto& flip = comparison.flip)
    json["flip"] = {{"position", flip->position}, {"a", to_json(flip->a)}, {"b", to_json(flip->b)}};
  return json;
}

void run_diff_command(const DiffArguments& arguments) {
  Side a = side_of(arguments.a), b = side_of(arguments.b);
  complete_numerics(a, b);
  const bool has_live = !a.saved || !b.saved, has_saved = a.saved || b.saved;
  check_usage(has_live || (!arguments.text.model && !arguments.text.has_prompt()),
              "two saved traces need neither a model nor a prompt");
  check_usage(!has_saved || !arguments.text.is_given(),
              "text, steps and passes are those of the saved trace: --prompt, --prompt-tokens, --chat and its like, "
              "--max-tokens, --positions and --prefill-chunk do not go with it");
  std::optional<engine::ModelFiles> files;
  if (has_live) {
    files.emplace(model_folder(arguments.text.model));
    const std::string digest = model_digest_of(*files);
    for (const Side* saved : {&a, &b})
      require(!saved->saved || saved->saved->model_digest == digest, "the saved trace is of model {}; {} has model {}",
              saved->saved ? saved->saved->model_digest : "", files->path(), digest);
    const TextToTrace text = a.saved   ? TextToTrace{study::request_of(*a.saved)}
                             : b.saved ? TextToTrace{study::request_of(*b.saved)}
                                       : text_to_trace(arguments.text, *files);
    for (Side* side : {&a, &b})
      if (!side->saved) side->saved = trace_on(make_context(side->device), *files, digest, text);
  }
  const study::Comparison comparison = study::compare_traces(*a.saved, *b.saved);
  if (arguments.json) {
    fmt::print("{}\n", to_json(comparison).dump());
  } else {
    fmt::print("A  {}, {}\nB  {}, {}\n", a.saved->device, a.saved->numerics, b.saved->device, b.saved->numerics);
    print(comparison, files ? &files->text() : nullptr, has_saved);
  }
  if (comparison.first || comparison.text_differs_at) throw CLI::RuntimeError(1);
}

// As diff(1): 1 is a difference, and 2 what could not be compared.
void try_diff_command(const DiffArguments& arguments) {
  try {
    run_diff_command(arguments);
  } catch (const Error& error) {
    std::fflush(stdout);
    fmt::print(stderr, "reprofuse: {}\n", error.what());
    throw CLI::RuntimeError(2);
  }
}

}  // namespace

void add_diff_command(CLI::App& app) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* command = app.add_subcommand("diff", "Find the first op whose bits differ between two traces");
  command->add_option("A", arguments->a, "A saved trace, or DEVICE/NUMERICS to compute one, such as cpu/fma-1")
      ->required();
  command->add_option("B", arguments->b, "The other")->required();
  add_text_options(*command, arguments->text);
  command->add_flag("--json", arguments->json, "Print the result as one JSON object and nothing else");
  command->footer(
      "Exit status: 0 every step that both have has the same bits; 1 some have not, or the texts differ;\n"
      "2 usage, or an error: nothing was compared.");
  command->callback([arguments] { try_diff_command(*arguments); });
}

}  // namespace reprofuse::cli
