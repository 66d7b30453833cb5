#include "cli/usage.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/nearest_name.hpp"

namespace reprofuse::cli {
namespace {

constexpr auto kAll = [](const CLI::App*) { return true; };

// "; did you mean '--shapes'?", or nothing where no option is near.
std::string nearest_option(const CLI::App& command, const std::string& typed) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return suggest_name(typed, names);
}

void throw_if_unknown(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands(kAll)) names.push_back(sub->get_name());
  const std::vector<std::string> unknown = command.remaining();
  const bool lacks_subcommand = !names.empty() && command.get_subcommands().empty();
  if (unknown.empty() && !lacks_subcommand) return;
  const auto because = [](const std::string& why) { throw CLI::ParseError(why, CLI::ExitCodes::ExtrasError); };
  if (unknown.empty()) because(fmt::format("{} needs a command: {}", command.get_name(), fmt::join(names, ", ")));
  const std::string typed = unknown.front().substr(0, unknown.front().find('='));
  if (typed.rfind('-', 0) == 0)
    because(fmt::format("{} has no option '{}'{}", command.get_name(), typed, nearest_option(command, typed)));
  if (lacks_subcommand)
    because(fmt::format("there is no {} '{}'; there are {}", command.get_name(), typed, fmt::join(names, ", ")));
  because(fmt::format("{} was given '{}', which belongs to no option", command.get_name(), unknown.front()));
}

}  // namespace

void refuse_unknown(CLI::App& command) {
  command.require_subcommand(0, 1);  // that there is one is checked here, with a better message
  command.allow_extras();            // the same
  command.parse_complete_callback([&command] { throw_if_unknown(command); });
  for (CLI::App* sub : command.get_subcommands(kAll)) refuse_unknown(*sub);
}

}  // namespace reprofuse::cli
