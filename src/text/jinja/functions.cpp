#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprofuse/error.hpp"
#include "text/jinja/evaluator.hpp"
#include "text/jinja/markers.hpp"
#include "text/jinja/strings.hpp"
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

namespace {

struct MethodInput {
  std::string_view user;  // "method 'strip'"
  const std::string& text;
  const Arguments& arguments;
  Runtime& runtime;
};

struct StringMethod {
  std::string_view name;
  std::string_view user;
  Value (*call)(const MethodInput& input);
};

Value list_of(std::vector<std::string> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string& part : parts) items.emplace_back(std::move(part));
  return Value::sequence(std::move(items));
}

template <std::string (*kChange)(std::string_view text, std::string_view user)>
Value change(const MethodInput& input) {
  const Parameters none(input.user, input.arguments, {});
  return Value(kChange(input.text, input.user));
}

template <StripEnds kEnds>
Value strip_ends(const MethodInput& input) {
  const Parameters parameters(input.user, input.arguments, {"chars"});
  if (!parameters.has(0) || parameters[0].is_none()) return Value(std::string(strip_space(input.text, kEnds)));
  return Value(std::string(strip(input.text, require_string(parameters[0], input.user), kEnds)));
}

Value split_method(const MethodInput& input) {
  const Parameters parameters(input.user, input.arguments, {"sep", "maxsplit"});
  std::optional<std::string_view> separator;
  if (parameters.has(0) && !parameters[0].is_none()) separator = require_string(parameters[0], input.user);
  return list_of(split(input.text, separator, parameters.integer_or(1, -1), input.runtime.budget));
}

Value splitlines(const MethodInput& input) {
  const Parameters none(input.user, input.arguments, {});
  return list_of(split_lines(input.text, input.runtime.budget));
}

// startswith() and endswith() take one string, or a tuple of which one must fit.
template <bool kAtStart>
Value has_affix(const MethodInput& input) {
  const Parameters parameters(input.user, input.arguments, {"affix"}, 1);
  const auto fits = [&](const Value& affix) {
    const std::string& part = require_string(affix, input.user);
    return kAtStart ? input.text.starts_with(part) : input.text.ends_with(part);
  };
  const Sequence* several = parameters[0].sequence();
  if (several == nullptr || several->kind != SequenceKind::kTuple) return Value(fits(parameters[0]));
  return Value(std::any_of(several->items.begin(), several->items.end(), fits));
}

template <bool kAtStart>
Value remove_affix(const MethodInput& input) {
  const Parameters parameters(input.user, input.arguments, {"affix"}, 1);
  const std::string& part = require_string(parameters[0], input.user);
  std::string_view text = input.text;
  if (kAtStart && text.starts_with(part)) text.remove_prefix(part.size());
  if (!kAtStart && text.ends_with(part)) text.remove_suffix(part.size());
  return Value(std::string(text));
}

Value replace_method(const MethodInput& input) {
  const Parameters parameters(input.user, input.arguments, {"old", "new", "count"}, 2);
  return Value(replace(input.text, require_string(parameters[0], input.user), require_string(parameters[1], input.user),
                       parameters.integer_or(2, -1), input.runtime.budget));
}

Value find_method(const MethodInput& input) {
  const Parameters parameters(input.user, input.arguments, {"sub"}, 1);
  const std::size_t found = find_text(input.text, require_string(parameters[0], input.user));
  if (found == std::string::npos) return Value(std::int64_t{-1});
  return Value(static_cast<std::int64_t>(count_code_points(std::string_view(input.text).substr(0, found))));
}

Value count_method(const MethodInput& input) {
  const Parameters parameters(input.user, input.arguments, {"sub"}, 1);
  const std::string& part = require_string(parameters[0], input.user);
  if (part.empty()) return Value(static_cast<std::int64_t>(count_code_points(input.text)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = find_text(input.text, part); at != std::string::npos;
       at = find_text(input.text, part, at + part.size())) {
    ++count;
  }
  return Value(count);
}

Value join_method(const MethodInput& input) {
  const Parameters parameters(input.user, input.arguments, {"iterable"}, 1);
  std::string result;
  bool first = true;
  for (const Value& item : walk(parameters[0], input.user, input.runtime.budget)) {
    if (!std::exchange(first, false)) {
      input.runtime.budget.spend_bytes(input.text.size());
      result += input.text;
    }
    const std::string& part = require_string(item, input.user);
    input.runtime.budget.spend_bytes(part.size());
    result += part;
  }
  return Value(std::move(result));
}

// Which letters and digits there are beyond ASCII is a matter of tables that are not here.
template <bool (*kHolds)(char c)>
Value all_characters(const MethodInput& input) {
  const Parameters none(input.user, input.arguments, {});
  for (const char c : input.text) {
    if (static_cast<unsigned char>(c) >= 0x80) template_error("{}: supports ASCII text only", input.user);
  }
  return Value(!input.text.empty() && std::all_of(input.text.begin(), input.text.end(), kHolds));
}

Value isspace_method(const MethodInput& input) {
  const Parameters none(input.user, input.arguments, {});
  return Value(!input.text.empty() && strip_space(input.text).empty());
}

constexpr std::array kStringMethods = {
    StringMethod{"capitalize", "method 'capitalize'", change<capitalize>},
    StringMethod{"count", "method 'count'", count_method},
    StringMethod{"endswith", "method 'endswith'", has_affix<false>},
    StringMethod{"find", "method 'find'", find_method},
    StringMethod{"isalpha", "method 'isalpha'", all_characters<is_letter>},
    StringMethod{"isdigit", "method 'isdigit'", all_characters<is_digit>},
    StringMethod{"isspace", "method 'isspace'", isspace_method},
    StringMethod{"join", "method 'join'", join_method},
    StringMethod{"lower", "method 'lower'", change<lower>},
    StringMethod{"lstrip", "method 'lstrip'", strip_ends<StripEnds::kLeft>},
    StringMethod{"removeprefix", "method 'removeprefix'", remove_affix<true>},
    StringMethod{"removesuffix", "method 'removesuffix'", remove_affix<false>},
    StringMethod{"replace", "method 'replace'", replace_method},
    StringMethod{"rstrip", "method 'rstrip'", strip_ends<StripEnds::kRight>},
    StringMethod{"split", "method 'split'", split_method},
    StringMethod{"splitlines", "method 'splitlines'", splitlines},
    StringMethod{"startswith", "method 'startswith'", has_affix<true>},
    StringMethod{"strip", "method 'strip'", strip_ends<StripEnds::kBoth>},
    StringMethod{"title", "method 'title'", change<title_words>},
    StringMethod{"upper", "method 'upper'", change<upper>},
};

// Nothing when there is no such method.
std::optional<Value> call_mapping_method(const Mapping& mapping, std::string_view name, const Arguments& arguments,
                                         Budget& budget) {
  if (name == "get") {
    const Parameters parameters("method 'get'", arguments, {"key", "default"}, 1);
    const Value* value = mapping.find(require_string(parameters[0], "method 'get'"));
    if (value != nullptr) return *value;
    return parameters.has(1) ? parameters[1] : Value();
  }
  if (name != "items" && name != "keys" && name != "values") return std::nullopt;
  const Parameters none(fmt::format("method '{}'", name), arguments, {});
  std::vector<Value> view;
  for (const auto& [key, value] : mapping.items) {
    budget.spend_bytes(3 * sizeof(Value) + key.size());
    if (name == "items") {
      view.push_back(Value::sequence({Value(key), value}, SequenceKind::kTuple));
    } else {
      view.push_back(name == "keys" ? Value(key) : value);
    }
  }
  return Value::sequence(std::move(view), SequenceKind::kView);
}

}  // namespace

Arguments spell_what_is_looked_for(const Value& object, const Arguments& arguments, const Runtime& runtime) {
  if (runtime.markers == nullptr) return arguments;
  bool is_marked = false;
  const auto spell = [&](Value& value) {
    const std::string* text = value.string();
    is_marked = is_marked || value.sequence() != nullptr || (text != nullptr && Markers::occur_in(*text));
    value = runtime.markers->spelled(value);
  };
  Arguments spelled = arguments;
  if (!spelled.positional.empty()) spell(spelled.positional[0]);
  for (auto& [name, value] : spelled.named)
    if (name != "new") spell(value);
  // What was given spells it and what the template wrote is marked: one of them would not be found.
  if (is_marked && Markers::occur_in(*object.string()))
    template_error("special tokens are looked for in a text that has some of the template's own");
  return spelled;
}

Value call_method(const Value& object, std::string_view name, const Arguments& arguments, Runtime& runtime) {
  if (const std::string* text = object.string()) {
    runtime.budget.spend_bytes(text->size());
    const Arguments looked_for = name == "join" ? arguments : spell_what_is_looked_for(object, arguments, runtime);
    for (const StringMethod& method : kStringMethods) {
      if (method.name == name) return method.call({method.user, *text, looked_for, runtime});
    }
  } else if (const Mapping* mapping = object.mapping()) {
    if (auto result = call_mapping_method(*mapping, name, arguments, runtime.budget)) return *std::move(result);
  }
  require_defined(object, fmt::format("method '{}'", name));
  template_error("method '{}' of a value of type {} is not supported", name, object.type_name());
}

}  // namespace reprofuse::text::jinja
