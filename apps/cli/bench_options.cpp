#include "cli/bench_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/option_values.hpp"
#include "study/bench/error.hpp"

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

}  // namespace

void add_number_list(CLI::App& command, const std::string& option, std::vector<std::int64_t>& numbers, std::int64_t max,
                     const std::string& about) {
  const auto read = [option, max, &numbers](const std::string& text) {
    const CLI::Validator is_in_range = whole_number<std::int64_t>(1, max);
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
    const CLI::Validator is_known = one_of(numerics_names());
    numerics = split_list("--numerics", text);
    for (std::string& name : numerics)
      if (const std::string wrong = is_known(name); !wrong.empty()) throw CLI::ValidationError("--numerics", wrong);
  };
  if (CLI::Option* one = command.get_option_no_throw("--numerics")) command.remove_option(one);
  command
      .add_option_function<std::string>("--numerics", read,
                                        fmt::format("{}: {}", about, fmt::join(numerics_names(), ", ")))
      ->type_name("NAME,...")
      ->default_str(!numerics.empty()   ? fmt::format("{}", fmt::join(numerics, ","))
                    : otherwise.empty() ? default_numerics_names()
                                        : otherwise);
}

std::string default_note(const std::vector<std::string>& numerics, const std::string& device) {
  return numerics.empty() ? fmt::format(": {}{}", default_numerics(device), DeviceArguments::kDefaultNote) : "";
}

void add_output_file(CLI::App& command, const std::string& option, std::string& path, const std::string& about) {
  const auto has_name = [](const std::string& text) { return text.empty() ? "the name of a file is empty" : ""; };
  command.add_option(option, path, about)->type_name("FILE")->check(CLI::Validator(has_name, ""));
}

std::vector<Context> make_contexts(const DeviceArguments& device, const std::vector<std::string>& numerics,
                                   const std::shared_ptr<model::Team>& team) {
  std::vector<Context> contexts;
  const std::vector<std::string> by_default = {std::string(default_numerics(device.device))};
  for (const std::string& name : numerics.empty() ? by_default : numerics) {
    DeviceArguments one = device;
    one.numerics = name;
    study::require_runs(contexts.emplace_back(make_context(one, team)));
  }
  return contexts;
}

}  // namespace reprofuse::cli
