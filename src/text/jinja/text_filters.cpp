#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/filters.hpp"
#include "text/jinja/text.hpp"
#include "text/jinja/unicode.hpp"

namespace reprofuse::text::jinja::filters {
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
  const Parameters parameters(input.user, input.arguments, {"chars"});
  const std::string& text = text_of(input);
  if (!parameters.has(0) || parameters[0].is_none()) return Value(std::string(strip_space(text)));
  return Value(std::string(strip(text, require_string(parameters[0], input.user), StripEnds::kBoth)));
}

Value replace(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"old", "new", "count"}, 2);
  return Value(jinja::replace(text_of(input), require_string(parameters[0], input.user),
                              require_string(parameters[1], input.user), parameters.integer_or(2, -1),
                              input.runtime.budget));
}

Value indent(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"width", "first", "blank"});
  constexpr std::int64_t kWidest = 1000;
  std::string indentation(4, ' ');
  if (parameters.has(0) && parameters[0].string() != nullptr) {
    indentation = *parameters[0].string();
  } else if (parameters.has(0)) {
    const std::int64_t width = require_integer(parameters[0], input.user);
    if (width < 0 || width > kWidest)
      template_error("{}: width {} is not between 0 and {}", input.user, width, kWidest);
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

}  // namespace reprofuse::text::jinja::filters
