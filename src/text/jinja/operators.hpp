// Python's operators on template values. What Python refuses is a TemplateError; so is what only Python could do.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/jinja/ast.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

bool equal(const Value& a, const Value& b, Budget& budget);
bool less(const Value& a, const Value& b, Budget& budget);  // of numbers or of strings
bool compare(Comparator comparator, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);

Value arithmetic(BinaryOperator operation, const Value& a, const Value& b, Budget& budget);
Value negate(const Value& value);

// object.name and object[key]; nothing where Jinja2 gives an undefined value.
std::optional<Value> get_attribute(const Value& object, std::string_view name);
std::optional<Value> get_item(const Value& object, const Value& key, Budget& budget);

struct SliceBounds {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::int64_t step = 1;
};
Value slice(const Value& object, const SliceBounds& bounds, Budget& budget);

}  // namespace reprofuse::text::jinja
