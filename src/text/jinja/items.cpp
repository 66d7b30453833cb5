#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/operators.hpp"
#include "text/jinja/text.hpp"

namespace reprofuse::text::jinja {
namespace {

std::optional<Value> loop_attribute(const Loop& loop, std::string_view name) {
  const auto number = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
  const std::vector<Value>& items = loop.items->items;
  const std::size_t index = loop.index;
  if (name == "index") return number(index + 1);
  if (name == "index0") return number(index);
  if (name == "revindex") return number(items.size() - index);
  if (name == "revindex0") return number(items.size() - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == items.size());
  if (name == "length") return number(items.size());
  if (name == "previtem") return index == 0 ? std::nullopt : std::optional(items[index - 1]);
  if (name == "nextitem") return index + 1 == items.size() ? std::nullopt : std::optional(items[index + 1]);
  template_error("'loop.{}' is not supported", name);
}

// The position that a Python index means, or nothing when it is out of range.
std::optional<std::size_t> position(std::int64_t index, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < -length || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + length : index);
}

// The positions of a slice, as Python's slice.indices() has them.
std::vector<std::size_t> positions(const SliceBounds& bounds, std::size_t size, Budget& budget) {
  if (bounds.step == 0) template_error("the step of a slice is zero");
  const auto length = static_cast<std::int64_t>(size);
  const bool forward = bounds.step > 0;
  const std::int64_t lowest = forward ? 0 : -1;
  const std::int64_t highest = forward ? length : length - 1;
  const auto clamp = [&](std::int64_t bound) {
    return std::clamp(bound < 0 ? bound + length : bound, lowest, highest);
  };
  const std::int64_t start = bounds.start ? clamp(*bounds.start) : forward ? lowest : highest;
  const std::int64_t stop = bounds.stop ? clamp(*bounds.stop) : forward ? highest : lowest;
  std::vector<std::size_t> result;
  for (std::int64_t at = start; forward ? at < stop : at > stop;) {
    result.push_back(static_cast<std::size_t>(at));
    if (__builtin_add_overflow(at, bounds.step, &at)) break;
  }
  budget.spend_bytes(result.size() * sizeof(Value));
  return result;
}

// Where each character begins, and the end.
std::vector<std::size_t> character_starts(const std::string& text, Budget& budget) {
  budget.spend_bytes(text.size() * sizeof(std::size_t));
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size(); at += code_point_length(text[at])) starts.push_back(at);
  starts.push_back(text.size());
  return starts;
}

}  // namespace

std::optional<Value> get_attribute(const Value& object, std::string_view name) {
  if (const Mapping* mapping = object.mapping()) {
    // Jinja2 looks for Python's method first, so the entry of that name cannot be meant.
    static constexpr std::array<std::string_view, 11> kMethods = {
        "clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"};
    if (std::find(kMethods.begin(), kMethods.end(), name) != kMethods.end()) {
      template_error("'.{0}' is a method of a mapping; its entry is ['{0}']", name);
    }
    const Value* value = mapping->find(name);
    return value != nullptr ? std::optional(*value) : std::nullopt;
  }
  if (Namespace* const* space = object.get_if<Namespace*>()) {
    const auto found = (*space)->attributes.find(name);
    return found != (*space)->attributes.end() ? std::optional(found->second) : std::nullopt;
  }
  if (const auto* loop = object.get_if<std::shared_ptr<const Loop>>()) return loop_attribute(**loop, name);
  template_error("a value of type {} has no attribute '{}'", object.type_name(), name);
}

std::optional<Value> get_item(const Value& object, const Value& key, Budget& budget) {
  if (const Mapping* mapping = object.mapping()) {
    const Value* value = mapping->find(require_string(key, "key of a mapping"));
    return value != nullptr ? std::optional(*value) : std::nullopt;
  }
  if (const Sequence* sequence = object.sequence()) {
    if (sequence->kind == SequenceKind::kView || sequence->kind == SequenceKind::kIterator) {
      template_error("a value of type {} has no index; add |list", object.type_name());
    }
    const auto at = position(require_integer(key, "index of a list"), sequence->items.size());
    return at ? std::optional(sequence->items[*at]) : std::nullopt;
  }
  if (const std::string* text = object.string()) {
    const std::vector<std::size_t> starts = character_starts(*text, budget);
    const auto at = position(require_integer(key, "index of a string"), starts.size() - 1);
    if (!at) return std::nullopt;
    return Value(text->substr(starts[*at], starts[*at + 1] - starts[*at]));
  }
  if (key.string() != nullptr) return get_attribute(object, *key.string());
  template_error("a value of type {} has no items", object.type_name());
}

Value slice(const Value& object, const SliceBounds& bounds, Budget& budget) {
  if (const std::string* text = object.string()) {
    const std::vector<std::size_t> starts = character_starts(*text, budget);
    std::string result;
    for (const std::size_t at : positions(bounds, starts.size() - 1, budget)) {
      result += text->substr(starts[at], starts[at + 1] - starts[at]);
    }
    return Value(std::move(result));
  }
  const Sequence* sequence = object.sequence();
  if (sequence == nullptr || sequence->kind == SequenceKind::kView || sequence->kind == SequenceKind::kIterator) {
    template_error("a value of type {} has no slices", object.type_name());
  }
  std::vector<Value> items;
  for (const std::size_t at : positions(bounds, sequence->items.size(), budget)) items.push_back(sequence->items[at]);
  return Value::sequence(std::move(items), sequence->kind);
}

}  // namespace reprofuse::text::jinja
