#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/evaluator.hpp"
#include "text/jinja/strings.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja::filters {
namespace {

std::vector<Value> walk_input(const FilterInput& input) {
  return walk(input.value, input.user, input.runtime.budget);
}

Value iterator(std::vector<Value> items) {
  return Value::sequence(std::move(items), SequenceKind::kIterator);
}

// "function.name" or "parts.0": each part is a key, or an index where it is a number.
Value follow_path(const Value& item, std::string_view path, const FilterInput& input) {
  Value value = item;
  Budget& budget = input.runtime.budget;
  for (const std::string& part : split(path, ".", -1, budget)) {
    budget.spend_steps(1);
    require_defined(value, input.user);
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool numeric = error == std::errc() && end == part.data() + part.size() && part.front() != '-';
    value = get_item(value, numeric ? Value(index) : Value(part), budget).value_or(Value::undefined(part));
  }
  return value;
}

// The arguments after the first `skipped`, which belong to the filter itself.
Arguments rest_of(const Arguments& arguments, std::size_t skipped) {
  return {{arguments.positional.begin() + static_cast<std::ptrdiff_t>(skipped), arguments.positional.end()},
          arguments.named};
}

// select, reject, selectattr and rejectattr: `wanted` is the outcome of the test that keeps an item.
Value keep_where(const FilterInput& input, bool by_attribute, bool wanted) {
  const std::vector<Value>& given = input.arguments.positional;
  const std::size_t test_place = by_attribute ? 1 : 0;
  if (given.size() < test_place) template_error("{}: the name of an attribute is missing", input.user);
  const Test* test = nullptr;
  Arguments test_arguments;
  if (given.size() > test_place) {
    const std::string& name = require_string(given[test_place], input.user);
    test = find_test(name);
    if (test == nullptr) template_error("test '{}' is not supported", name);
    test_arguments = rest_of(input.arguments, test_place + 1);
  }
  std::vector<Value> kept;
  for (const Value& item : walk_input(input)) {
    const Value subject = by_attribute ? follow_path(item, require_string(given[0], input.user), input) : item;
    const bool outcome = test ? apply_test(*test, subject, test_arguments, input.runtime) : subject.truthy();
    if (outcome == wanted) kept.push_back(item);
  }
  return iterator(std::move(kept));
}

// What sort and unique compare: the item or its attribute, in lower case unless told otherwise.
Value sort_key(const Value& item, const Value* attribute, bool case_sensitive, const FilterInput& input) {
  Value key = attribute ? follow_path(item, require_string(*attribute, input.user), input) : item;
  if (case_sensitive || key.string() == nullptr) return key;
  input.runtime.budget.spend_bytes(key.string()->size());
  return Value(jinja::lower(*key.string(), input.user));
}

const Value* given_or_null(const Parameters& parameters, std::size_t i) {
  return parameters.has(i) && !parameters[i].is_none() ? &parameters[i] : nullptr;
}

}  // namespace

Value select(const FilterInput& input) {
  return keep_where(input, false, true);
}
Value reject(const FilterInput& input) {
  return keep_where(input, false, false);
}
Value selectattr(const FilterInput& input) {
  return keep_where(input, true, true);
}
Value rejectattr(const FilterInput& input) {
  return keep_where(input, true, false);
}

Value map(const FilterInput& input) {
  std::vector<Value> results;
  if (input.arguments.positional.empty()) {
    const Parameters parameters(input.user, input.arguments, {"attribute", "default"}, 1);
    const std::string& path = require_string(parameters[0], input.user);
    for (const Value& item : walk_input(input)) {
      Value value = follow_path(item, path, input);
      if (value.is_undefined() && parameters.has(1)) value = parameters[1];
      results.push_back(std::move(value));
    }
    return iterator(std::move(results));
  }
  const std::string& name = require_string(input.arguments.positional[0], input.user);
  const Filter* filter = find_filter(name);
  if (filter == nullptr) template_error("filter '{}' is not supported", name);
  const Arguments arguments = rest_of(input.arguments, 1);
  for (const Value& item : walk_input(input)) results.push_back(apply_filter(*filter, item, arguments, input.runtime));
  return iterator(std::move(results));
}

Value join(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"d", "attribute"});
  const std::string_view separator = parameters.string_or(0, "");
  const Value* attribute = given_or_null(parameters, 1);
  Budget& budget = input.runtime.budget;
  std::string result;
  bool first = true;
  for (const Value& item : walk_input(input)) {
    if (!std::exchange(first, false)) {
      budget.spend_bytes(separator.size());
      result += separator;
    }
    result += to_text(attribute ? follow_path(item, require_string(*attribute, input.user), input) : item, budget);
  }
  return Value(std::move(result));
}

Value first(const FilterInput& input) {
  const Parameters none(input.user, input.arguments, {});
  const std::vector<Value> items = walk_input(input);
  return items.empty() ? Value::undefined("first item of an empty sequence") : items.front();
}

Value last(const FilterInput& input) {
  const Parameters none(input.user, input.arguments, {});
  const Sequence* sequence = input.value.sequence();
  if (sequence != nullptr && sequence->kind == SequenceKind::kIterator) {
    template_error("{}: an iterator has no last item; add |list", input.user);
  }
  const std::vector<Value> items = walk_input(input);
  return items.empty() ? Value::undefined("last item of an empty sequence") : items.back();
}

Value reverse(const FilterInput& input) {
  const Parameters none(input.user, input.arguments, {});
  if (input.value.string() != nullptr) return slice(input.value, {{}, {}, -1}, input.runtime.budget);
  std::vector<Value> items = walk_input(input);
  std::reverse(items.begin(), items.end());
  return iterator(std::move(items));
}

Value sort(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"reverse", "case_sensitive", "attribute"});
  const bool descending = parameters.truth_or(0, false);
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : walk_input(input)) {
    Value key = sort_key(item, given_or_null(parameters, 2), parameters.truth_or(1, false), input);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return descending ? less(b.first, a.first, input.runtime.budget) : less(a.first, b.first, input.runtime.budget);
  });
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return Value::sequence(std::move(items));
}

Value unique(const FilterInput& input) {
  const Parameters parameters(input.user, input.arguments, {"case_sensitive", "attribute"});
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (Value& item : walk_input(input)) {
    Value key = sort_key(item, given_or_null(parameters, 1), parameters.truth_or(0, false), input);
    const auto same = [&](const Value& other) { return equal(key, other, input.runtime.budget); };
    if (std::any_of(seen.begin(), seen.end(), same)) continue;
    seen.push_back(std::move(key));
    kept.push_back(std::move(item));
  }
  return iterator(std::move(kept));
}

}  // namespace reprofuse::text::jinja::filters
