#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/builtins.hpp"
#include "text/jinja/markers.hpp"
#include "text/jinja/text.hpp"

namespace reprofuse::text::jinja {
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
