#include "cli/usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace reprofuse::cli {
namespace {

constexpr auto kAll = [](const CLI::App*) { return true; };

// Letters to be put in, left out or replaced to get from one to the other.
std::size_t edit_distance(const std::string& from, const std::string& to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// ", did you mean '--shapes'?", or nothing where no option is near.
std::string nearest_option(const CLI::App& command, const std::string& typed) {
  constexpr std::size_t kFar = 3;
  std::size_t least = kFar;
  std::string nearest;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames())
      if (const std::size_t far = edit_distance(typed, "--" + name); far < least) {
        least = far;
        nearest = fmt::format("; did you mean '--{}'?", name);
      }
  return nearest;
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
