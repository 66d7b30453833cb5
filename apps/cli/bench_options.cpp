#include "cli/bench_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "cli/numbers.hpp"
#include "study/bench_error.hpp"

namespace reprofuse::cli {
namespace {

std::vector<std::string> split_list(const std::string& option, const std::string& text) {
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string value = text.substr(begin, end - begin);
    if (value.empty()) throw CLI::ValidationError(option, fmt::format("'{}' has an empty place in its list", text));
    if (std::find(values.begin(), values.end(), value) != values.end())
      throw CLI::ValidationError(option, fmt::format("'{}' is given twice", value));
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

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
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  const std::vector<std::string> unknown = command.remaining();
  const bool lacks_subcommand = !names.empty() && command.get_subcommands().empty();
  if (unknown.empty() && !lacks_subcommand) return;
  const auto because = [](const std::string& why) { throw CLI::ParseError(why, CLI::ExitCodes::ExtrasError); };
  if (unknown.empty()) because(fmt::format("{} what? There are {}", command.get_name(), fmt::join(names, ", ")));
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
  command.parse_complete_callback([&command] { throw_if_unknown(command); });
}

void add_number_list(CLI::App& command, const std::string& option, std::vector<std::int64_t>& numbers,
                     std::int64_t most, const std::string& about) {
  const auto read = [option, most, &numbers](const std::string& text) {
    const CLI::Validator is_in_range = whole_number<std::int64_t>(1, most);
    numbers.clear();
    for (std::string& value : split_list(option, text)) {
      if (const std::string wrong = is_in_range(value); !wrong.empty()) throw CLI::ValidationError(option, wrong);
      std::from_chars(value.data(), value.data() + value.size(), numbers.emplace_back());
    }
  };
  command.add_option_function<std::string>(option, read, about)
      ->type_name("N,...")
      ->default_str(fmt::format("{}", fmt::join(numbers, ",")));
}

void add_numerics_list(CLI::App& command, std::vector<std::string>& numerics, const std::string& about,
                       const std::string& otherwise) {
  const auto read = [&numerics](const std::string& text) {
    const std::vector<std::string_view> known = numerics_names();
    numerics = split_list("--numerics", text);
    for (const std::string& name : numerics)
      if (std::find(known.begin(), known.end(), name) == known.end())
        throw CLI::ValidationError("--numerics",
                                   fmt::format("there is no '{}'; there are {}", name, fmt::join(known, ", ")));
  };
  if (CLI::Option* one = command.get_option_no_throw("--numerics")) command.remove_option(one);
  command
      .add_option_function<std::string>("--numerics", read,
                                        fmt::format("{}: {}", about, fmt::join(numerics_names(), ", ")))
      ->type_name("NAME,...")
      ->default_str(numerics.empty() ? otherwise : fmt::format("{}", fmt::join(numerics, ",")));
}

void add_output_file(CLI::App& command, const std::string& option, std::string& path, const std::string& about) {
  const auto has_name = [](const std::string& text) { return text.empty() ? "the name of a file is empty" : ""; };
  command.add_option(option, path, about)->type_name("FILE")->check(CLI::Validator(has_name, ""));
}

std::vector<Context> make_contexts(const DeviceArguments& device, const std::vector<std::string>& numerics) {
  std::vector<Context> contexts;
  for (const std::string& name : numerics) {
    DeviceArguments one = device;
    one.numerics = name;
    study::require_runs(contexts.emplace_back(make_context(one)));
  }
  return contexts;
}

}  // namespace reprofuse::cli
