#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/evaluator.hpp"
#include "text/jinja/strings.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {
namespace {

void take_no_arguments(const FilterInput& input) {
  Parameters(input.user, input.arguments, {});
}

Value default_filter(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"default_value", "boolean"});
  const bool missing = input.value.is_undefined() || (parameters.truth_or(1, false) && !input.value.truthy());
  if (!missing) return input.value;
  return parameters.has(0) ? parameters[0] : Value(std::string());
}

Value length(const FilterInput& input) {
  take_no_arguments(input);
  std::size_t length = 0;
  if (const std::string* text = input.value.string()) {
    length = count_code_points(*text);
    input.runtime.budget.spend_steps(text->size() / 64);
  } else if (const Mapping* mapping = input.value.mapping()) {
    length = mapping->items.size();
  } else if (const Sequence* items = input.value.sequence();
             items != nullptr && items->kind != SequenceKind::kIterator) {
    length = items->items.size();
  } else {
    template_error("{}: a value of type {} has no length", input.user, input.value.type_name());
  }
  return Value(static_cast<std::int64_t>(length));
}

Value list(const FilterInput& input) {
  take_no_arguments(input);
  return Value::sequence(walk(input.value, input.user, input.runtime.budget));
}

Value items(const FilterInput& input) {
  take_no_arguments(input);
  const Mapping* mapping = input.value.mapping();
  if (mapping == nullptr)
    template_error("{}: takes a mapping, not a value of type {}", input.user, input.value.type_name());
  std::vector<Value> pairs;
  for (const auto& [key, value] : mapping->items) {
    input.runtime.budget.spend_bytes(3 * sizeof(Value) + key.size());
    pairs.push_back(Value::sequence({Value(key), value}, SequenceKind::kTuple));
  }
  return Value::sequence(std::move(pairs), SequenceKind::kIterator);
}

Value string(const FilterInput& input) {
  take_no_arguments(input);
  return Value(to_text(input.value, input.runtime.budget));
}

// Autoescaping is off in chat templates, so there is nothing to be safe from.
Value safe(const FilterInput& input) {
  take_no_arguments(input);
  return Value(require_string(input.value, input.user));
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  text = strip_space(text);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error != std::errc()) template_error("the number '{}' is out of range", text);
  if constexpr (std::is_same_v<Number, double>) {
    if (!std::isfinite(number)) template_error("the number '{}' is not finite", text);
  }
  return number;
}

std::optional<double> converted_to_float(const Value& value) {
  if (const bool* boolean = value.get_if<bool>()) return *boolean ? 1 : 0;
  if (const auto* integer = value.get_if<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* number = value.get_if<double>()) return *number;
  if (const std::string* text = value.string()) return parse_number<double>(*text);
  return std::nullopt;
}

Value to_float(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"default"});
  if (const auto number = converted_to_float(input.value)) return Value(*number);
  return parameters.has(0) ? parameters[0] : Value(0.0);
}

Value to_int(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"default"});
  if (input.value.get_if<std::int64_t>() != nullptr) return input.value;
  if (const std::string* text = input.value.string()) {
    if (const auto integer = parse_number<std::int64_t>(*text)) return Value(*integer);
  }
  if (const auto number = converted_to_float(input.value)) {
    constexpr double kLimit = 0x1p63;
    if (*number >= kLimit || *number < -kLimit) template_error("{}: {} does not fit 64 bits", input.user, *number);
    return Value(static_cast<std::int64_t>(*number));  // towards zero, as Python's int()
  }
  return parameters.has(0) ? parameters[0] : Value(std::int64_t{0});
}

// As Hugging Face defines it: not Jinja2's own, which escapes HTML.
Value tojson(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = parameters.truth_or(0, false);
  style.sort_keys = parameters.truth_or(3, false);
  if (parameters.has(1) && !parameters[1].is_none()) {
    constexpr std::int64_t kMaxIndent = 100;
    style.indent = require_integer(parameters[1], input.user);
    if (*style.indent < 0 || *style.indent > kMaxIndent) {
      template_error("{}: indent {} is not between 0 and {}", input.user, *style.indent, kMaxIndent);
    }
    style.item_separator = std::string(1, ',');  // from a literal, g++ 12 warns of an overlap that cannot be
  }
  if (parameters.has(2) && !parameters[2].is_none()) {
    const std::vector<Value> separators = walk(parameters[2], input.user, input.runtime.budget);
    if (separators.size() != 2) template_error("{}: takes two separators, not {}", input.user, separators.size());
    style.item_separator = require_string(separators[0], input.user);
    style.key_separator = require_string(separators[1], input.user);
  }
  return Value(to_json(input.value, style, input.runtime.budget));
}

constexpr std::array kFilters = {
    Filter{"capitalize", "filter 'capitalize'", filters::capitalize},
    Filter{"count", "filter 'count'", length},
    Filter{"d", "filter 'd'", default_filter, true},
    Filter{"default", "filter 'default'", default_filter, true},
    Filter{"first", "filter 'first'", filters::first},
    Filter{"float", "filter 'float'", to_float},
    Filter{"indent", "filter 'indent'", filters::indent},
    Filter{"int", "filter 'int'", to_int},
    Filter{"items", "filter 'items'", items},
    Filter{"join", "filter 'join'", filters::join},
    Filter{"last", "filter 'last'", filters::last},
    Filter{"length", "filter 'length'", length},
    Filter{"list", "filter 'list'", list},
    Filter{"lower", "filter 'lower'", filters::lower},
    Filter{"map", "filter 'map'", filters::map},
    Filter{"reject", "filter 'reject'", filters::reject},
    Filter{"rejectattr", "filter 'rejectattr'", filters::rejectattr},
    Filter{"replace", "filter 'replace'", filters::replace},
    Filter{"reverse", "filter 'reverse'", filters::reverse},
    Filter{"safe", "filter 'safe'", safe},
    Filter{"select", "filter 'select'", filters::select},
    Filter{"selectattr", "filter 'selectattr'", filters::selectattr},
    Filter{"sort", "filter 'sort'", filters::sort},
    Filter{"string", "filter 'string'", string},
    Filter{"title", "filter 'title'", filters::title},
    Filter{"tojson", "filter 'tojson'", tojson},
    Filter{"trim", "filter 'trim'", filters::trim},
    Filter{"unique", "filter 'unique'", filters::unique},
    Filter{"upper", "filter 'upper'", filters::upper},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(), [&](const Filter& f) { return f.name == name; });
  return found == kFilters.end() ? nullptr : &*found;
}

Value apply_filter(const Filter& filter, const Value& value, const Arguments& arguments, Runtime& runtime) {
  runtime.budget.spend_steps(1);
  if (!filter.takes_undefined) require_defined(value, filter.user);
  return filter.apply({filter.user, value, arguments, runtime});
}

namespace filters {
namespace {

// Jinja2 would turn any value into a string first; here "None" never slips into a prompt.
const std::string& text_of(const FilterInput& input) {
  const std::string& text = require_string(input.value, input.user);
  input.runtime.budget.spend_bytes(text.size());
  return text;
}

Value change(const FilterInput& input, std::string (*change_text)(std::string_view text, std::string_view user)) {
  const Parameters none(input.user, input.arguments, {});
  return Value(change_text(text_of(input), input.user));
}

}  // namespace

Value capitalize(const FilterInput& input) {
  return change(input, jinja::capitalize);
}
Value lower(const FilterInput& input) {
  return change(input, jinja::lower);
}
Value title(const FilterInput& input) {
  return change(input, jinja::title_filter);
}
Value upper(const FilterInput& input) {
  return change(input, jinja::upper);
}

Value trim(const FilterInput& input) {
  const std::string& text = text_of(input);
  const Arguments arguments = spell_what_is_looked_for(input.value, input.arguments, input.runtime);
  const Parameters parameters(input.user, arguments, {"chars"});
  if (!parameters.has(0) || parameters[0].is_none()) return Value(std::string(strip_space(text)));
  return Value(std::string(strip(text, require_string(parameters[0], input.user), StripEnds::kBoth)));
}

Value replace(const FilterInput& input) {
  const std::string& text = text_of(input);
  const Arguments arguments = spell_what_is_looked_for(input.value, input.arguments, input.runtime);
  const Parameters parameters(input.user, arguments, {"old", "new", "count"}, 2);
  return Value(jinja::replace(text, require_string(parameters[0], input.user),
                              require_string(parameters[1], input.user), parameters.integer_or(2, -1),
                              input.runtime.budget));
}

Value indent(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"width", "first", "blank"});
  constexpr std::int64_t kMaxWidth = 1000;
  std::string indentation(4, ' ');
  if (parameters.has(0) && parameters[0].string() != nullptr) {
    indentation = *parameters[0].string();
  } else if (parameters.has(0)) {
    const std::int64_t width = require_integer(parameters[0], input.user);
    if (width < 0 || width > kMaxWidth)
      template_error("{}: width {} is not between 0 and {}", input.user, width, kMaxWidth);
    indentation = std::string(static_cast<std::size_t>(width), ' ');
  }
  Budget& budget = input.runtime.budget;
  const bool blank_lines_too = parameters.truth_or(2, false);
  std::string result = parameters.truth_or(1, false) ? indentation : "";
  const std::vector<std::string> lines = split_lines(text_of(input) + "\n", budget);  // so that there is a line
  for (std::size_t i = 0; i < lines.size(); ++i) {
    budget.spend_bytes(indentation.size() + lines[i].size() + 1);
    if (i > 0) result += '\n';
    if (i > 0 && (blank_lines_too || !lines[i].empty())) result += indentation;
    result += lines[i];
  }
  return Value(std::move(result));
}
}  // namespace filters

}  // namespace reprofuse::text::jinja
