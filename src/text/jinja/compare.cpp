#include <string>
#include <utility>

#include "text/jinja/operators.hpp"
#include "text/jinja/unicode.hpp"

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

}  // namespace reprofuse::text::jinja
