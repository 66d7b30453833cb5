#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "reprofuse/error.hpp"
#include "text/jinja/builtins.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

Parameters::Parameters(std::string_view user, const Arguments& given, std::initializer_list<std::string_view> names,
                       std::size_t required)
    : user_(user), values_(names.size(), nullptr) {
  if (given.positional.size() > names.size()) {
    template_error("{}: takes at most {} arguments, not {}", user, names.size(), given.positional.size());
  }
  for (std::size_t i = 0; i < given.positional.size(); ++i) values_[i] = &given.positional[i];
  for (const auto& [name, value] : given.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) template_error("{}: argument '{}' is not supported", user, name);
    const Value*& slot = values_[static_cast<std::size_t>(found - names.begin())];
    if (slot != nullptr) template_error("{}: argument '{}' is given twice", user, name);
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) template_error("{}: argument '{}' is missing", user, names.begin()[i]);
  }
}

std::string_view Parameters::string_or(std::size_t i, std::string_view otherwise) const {
  return has(i) && !values_[i]->is_none() ? std::string_view(require_string(*values_[i], user_)) : otherwise;
}

std::int64_t Parameters::integer_or(std::size_t i, std::int64_t otherwise) const {
  return has(i) && !values_[i]->is_none() ? require_integer(*values_[i], user_) : otherwise;
}

bool Parameters::truth_or(std::size_t i, bool otherwise) const {
  return has(i) && !values_[i]->is_none() ? values_[i]->truthy() : otherwise;
}

namespace {

// The entries of an optional mapping, then the named arguments.
MappingItems entries(std::string_view user, const Arguments& arguments, Budget& budget) {
  if (arguments.positional.size() > 1) template_error("{}: takes one mapping and named arguments", user);
  MappingItems items;
  if (!arguments.positional.empty()) {
    const Mapping* mapping = arguments.positional[0].mapping();
    if (mapping == nullptr) {
      template_error("{}: takes a mapping, not a value of type {}", user, arguments.positional[0].type_name());
    }
    items = mapping->items;
  }
  items.insert(items.end(), arguments.named.begin(), arguments.named.end());
  budget.spend_bytes(items.size() * sizeof(items[0]));
  return items;
}

Value make_namespace(const Arguments& arguments, Runtime& runtime) {
  Namespace& space = runtime.namespaces.emplace_back();
  runtime.budget.spend_bytes(sizeof(Namespace));
  for (auto& [name, value] : entries("function 'namespace'", arguments, runtime.budget)) {
    space.attributes[name] = std::move(value);
  }
  return Value(&space);
}

Value make_dict(const Arguments& arguments, Runtime& runtime) {
  return Value::mapping(entries("function 'dict'", arguments, runtime.budget));
}

Value range(const Arguments& arguments, Runtime& runtime) {
  static constexpr std::string_view kUser = "function 'range'";
  constexpr std::uint64_t kMaxNumbers = 100'000;  // as Jinja2's sandbox has it
  if (!arguments.named.empty()) template_error("{}: takes no named arguments", kUser);
  const Parameters parameters(kUser, arguments, {"start", "stop", "step"}, 1);
  const std::int64_t first = require_integer(parameters[0], kUser);
  const std::int64_t start = parameters.has(1) ? first : 0;
  const std::int64_t stop = parameters.has(1) ? require_integer(parameters[1], kUser) : first;
  const std::int64_t step = parameters.has(2) ? require_integer(parameters[2], kUser) : 1;
  if (step == 0) template_error("{}: the step is zero", kUser);
  std::vector<Value> items;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (items.size() == kMaxNumbers) template_error("{}: more than {} numbers", kUser, kMaxNumbers);
    runtime.budget.spend_bytes(sizeof(Value));
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::sequence(std::move(items), SequenceKind::kView);
}

// A template's own error, for a conversation that its model was not made for.
Value raise_exception(const Arguments& arguments, Runtime& runtime) {
  const Parameters parameters("function 'raise_exception'", arguments, {"message"}, 1);
  template_error("{}", to_text(parameters[0], runtime.budget));
}

Value strftime_now(const Arguments& arguments, Runtime& runtime) {
  static constexpr std::string_view kUser = "function 'strftime_now'";
  const Parameters parameters(kUser, arguments, {"format"}, 1);
  const std::string& format = require_string(parameters[0], kUser);
  runtime.budget.spend_bytes(format.size() * 5);  // the longest directive, %A, gives at most nine letters for two
  try {
    return Value(format_date(runtime.now, format));
  } catch (const Error& error) {
    template_error("{}: {}", kUser, error.what());
  }
}

constexpr std::array kFunctions = {
    Function{"dict", make_dict}, Function{"namespace", make_namespace},  Function{"raise_exception", raise_exception},
    Function{"range", range},    Function{"strftime_now", strftime_now},
};

}  // namespace

const Function* find_function(std::string_view name) {
  const auto found =
      std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Function& f) { return f.name == name; });
  return found == kFunctions.end() ? nullptr : &*found;
}

}  // namespace reprofuse::text::jinja
