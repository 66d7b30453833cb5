#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "text/jinja/evaluator.hpp"
#include "text/jinja/strings.hpp"

namespace reprofuse::text::jinja {
namespace {

// Wide enough for every int64 and every double on each machine we build for, so that comparing them is exact.
using Wide = long double;
static_assert(std::numeric_limits<Wide>::digits >= 64);

std::optional<Wide> as_number(const Value& value) {
  if (const bool* boolean = value.get_if<bool>()) return *boolean ? 1 : 0;
  if (const auto* integer = value.get_if<std::int64_t>()) return static_cast<Wide>(*integer);
  if (const auto* number = value.get_if<double>()) return static_cast<Wide>(*number);
  return std::nullopt;
}

void spend_comparison(const std::string& a, const std::string& b, Budget& budget) {
  budget.spend_steps(1 + std::min(a.size(), b.size()) / 64);
}

bool equal_sequences(const Sequence& a, const Sequence& b, Budget& budget) {
  if (a.kind != b.kind) return false;
  if (a.kind == SequenceKind::kView || a.kind == SequenceKind::kIterator) {
    template_error("views and iterators cannot be compared; add |list");
  }
  if (a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i], budget)) return false;
  }
  return true;
}

bool equal_mappings(const Mapping& a, const Mapping& b, Budget& budget) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.spend_steps(1);
  if (const auto number = as_number(a)) return number == as_number(b);
  const std::string* text = a.string();
  if (text != nullptr && b.string() != nullptr) {
    spend_comparison(*text, *b.string(), budget);
    return *text == *b.string();
  }
  if (a.sequence() != nullptr && b.sequence() != nullptr) return equal_sequences(*a.sequence(), *b.sequence(), budget);
  if (a.mapping() != nullptr && b.mapping() != nullptr) return equal_mappings(*a.mapping(), *b.mapping(), budget);
  if (a.is_none() || a.is_undefined()) return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
  if (Namespace* const* space = a.get_if<Namespace*>())
    return b.get_if<Namespace*>() && *space == *b.get_if<Namespace*>();
  return false;
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.spend_steps(1);
  require_defined(a, "comparison");
  require_defined(b, "comparison");
  const auto x = as_number(a);
  const auto y = as_number(b);
  if (x && y) return *x < *y;
  if (a.string() == nullptr || b.string() == nullptr) {
    template_error("values of type {} and {} have no order", a.type_name(), b.type_name());
  }
  spend_comparison(*a.string(), *b.string(), budget);
  return *a.string() < *b.string();  // the order of UTF-8's bytes is the order of code points
}

bool compare(Comparator comparator, const Value& a, const Value& b, Budget& budget) {
  switch (comparator) {
    case Comparator::kEqual: return equal(a, b, budget);
    case Comparator::kNotEqual: return !equal(a, b, budget);
    case Comparator::kLess: return less(a, b, budget);
    case Comparator::kLessEqual: return !less(b, a, budget);
    case Comparator::kGreater: return less(b, a, budget);
    case Comparator::kGreaterEqual: return !less(a, b, budget);
    case Comparator::kIn: return contains(b, a, budget);
    case Comparator::kNotIn: return !contains(b, a, budget);
  }
  template_error("unknown comparison");
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  require_defined(container, "'in'");
  if (const std::string* text = container.string()) {
    const std::string& part = require_string(item, "'in' a string");
    budget.spend_steps(1 + text->size() / 64);
    return find_text(*text, part) != std::string::npos;
  }
  if (const Mapping* mapping = container.mapping()) {
    if (item.sequence() != nullptr || item.mapping() != nullptr) {
      template_error("a value of type {} cannot be a key", item.type_name());
    }
    return item.string() != nullptr && mapping->find(*item.string()) != nullptr;
  }
  for (const Value& candidate : walk(container, "'in'", budget)) {
    if (equal(candidate, item, budget)) return true;
  }
  return false;
}

namespace {

std::string_view symbol(BinaryOperator operation) {
  static constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<std::size_t>(operation)];
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) template_error("'**': a negative exponent is not supported");
  if (base >= -1 && base <= 1) return exponent == 0 || (base == -1 && exponent % 2 == 0) ? 1 : base;
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) {  // the 64th round at the latest overflows
    if (__builtin_mul_overflow(result, base, &result)) template_error("'**': the result does not fit 64 bits");
  }
  return result;
}

// Python rounds the quotient down, and gives the remainder the sign of the divisor.
Value divide_down(BinaryOperator operation, std::int64_t a, std::int64_t b) {
  if (b == -1) {  // INT64_MIN / -1 overflows
    if (operation == BinaryOperator::kModulo) return Value(std::int64_t{0});
    return negate(Value(a));
  }
  const std::int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (operation == BinaryOperator::kModulo) return Value(adjust ? remainder + b : remainder);
  return Value(a / b - (adjust ? 1 : 0));
}

Value integer_arithmetic(BinaryOperator operation, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (operation) {
    case BinaryOperator::kAdd: overflow = __builtin_add_overflow(a, b, &result); break;
    case BinaryOperator::kSubtract: overflow = __builtin_sub_overflow(a, b, &result); break;
    case BinaryOperator::kMultiply: overflow = __builtin_mul_overflow(a, b, &result); break;
    case BinaryOperator::kPower: result = power(a, b); break;
    case BinaryOperator::kDivide: {
      // Python's quotient of large integers is rounded once; two conversions and a division would round three times.
      constexpr std::int64_t kExact = std::int64_t{1} << 53;
      if (std::max(a, b) > kExact || std::min(a, b) < -kExact) template_error("'/': the integers are too large");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    }
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo: return divide_down(operation, a, b);
  }
  if (overflow) template_error("'{}': the result does not fit 64 bits", symbol(operation));
  return Value(result);
}

Value float_arithmetic(BinaryOperator operation, double a, double b) {
  double result = 0;
  switch (operation) {
    case BinaryOperator::kAdd: result = a + b; break;
    case BinaryOperator::kSubtract: result = a - b; break;
    case BinaryOperator::kMultiply: result = a * b; break;
    case BinaryOperator::kDivide: result = a / b; break;
    // Python's rules for their last bits and signs are intricate, and pow() is rounded differently by every libm.
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo:
    case BinaryOperator::kPower: template_error("'{}' of floats is not supported", symbol(operation));
  }
  if (!std::isfinite(result)) template_error("'{}': the result is not finite", symbol(operation));
  return Value(result);
}

Value repeat(const std::string& text, std::int64_t count, Budget& budget) {
  const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
  if (const auto bytes = checked_product(text.size(), times)) {
    budget.spend_bytes(static_cast<std::uint64_t>(*bytes));
  } else {
    template_error("'*': the string is too long");
  }
  std::string result;
  result.reserve(text.size() * times);
  for (std::uint64_t i = 0; i < times && !text.empty(); ++i) result += text;
  return Value(std::move(result));
}

Value add_sequences(const Sequence& a, const Sequence& b, Budget& budget) {
  if (a.kind != b.kind || a.kind == SequenceKind::kView || a.kind == SequenceKind::kIterator) {
    template_error("'+': only two lists or two tuples can be joined");
  }
  budget.spend_bytes((a.items.size() + b.items.size()) * sizeof(Value));
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return Value::sequence(std::move(items), a.kind);
}

std::optional<double> as_float(const Value& value) {
  if (const auto* integer = value.get_if<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* number = value.get_if<double>()) return *number;
  return std::nullopt;
}

}  // namespace

Value arithmetic(BinaryOperator operation, const Value& a, const Value& b, Budget& budget) {
  const std::string user = fmt::format("'{}'", symbol(operation));
  require_defined(a, user);
  require_defined(b, user);
  const std::string* text = a.string();
  const auto* left = a.get_if<std::int64_t>();
  const auto* right = b.get_if<std::int64_t>();
  if (operation == BinaryOperator::kAdd && text != nullptr && b.string() != nullptr) {
    budget.spend_bytes(text->size() + b.string()->size());
    return Value(*text + *b.string());
  }
  if (operation == BinaryOperator::kAdd && a.sequence() != nullptr && b.sequence() != nullptr) {
    return add_sequences(*a.sequence(), *b.sequence(), budget);
  }
  if (operation == BinaryOperator::kMultiply && text != nullptr && right != nullptr)
    return repeat(*text, *right, budget);
  const auto x = as_float(a);
  const auto y = as_float(b);
  if (!x || !y) template_error("{}: not defined for values of type {} and {}", user, a.type_name(), b.type_name());
  const bool divides = operation == BinaryOperator::kDivide || operation == BinaryOperator::kFloorDivide ||
                       operation == BinaryOperator::kModulo;
  if (divides && *y == 0) template_error("{}: division by zero", user);
  return left != nullptr && right != nullptr ? integer_arithmetic(operation, *left, *right)
                                             : float_arithmetic(operation, *x, *y);
}

Value negate(const Value& value) {
  require_defined(value, "'-'");
  if (const auto* integer = value.get_if<std::int64_t>()) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, *integer, &result))
      template_error("'-': the result does not fit 64 bits");
    return Value(result);
  }
  if (const auto* number = value.get_if<double>()) return Value(-*number);
  template_error("'-': not defined for a value of type {}", value.type_name());
}

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
