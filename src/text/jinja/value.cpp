#include "text/jinja/value.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "text/jinja/strings.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text::jinja {
namespace {

int height_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->height;
  if (const Mapping* mapping = value.mapping()) return mapping->height;
  return 0;
}

void raise_height(int& height, const Value& child) {
  height = std::max(height, height_of(child) + 1);
  if (height > Limits::kValueDepth) {
    template_error("lists and mappings are nested more than {} levels deep", Limits::kValueDepth);
  }
}

Value from_json_at_depth(const nlohmann::ordered_json& json, std::string_view place, int depth);

Value mapping_from_json(const nlohmann::ordered_json& json, std::string_view place, int depth) {
  MappingItems items;
  items.reserve(json.size());
  for (const auto& [key, value] : json.items()) {
    if (find_invalid_utf8(key)) template_error("{}: a key is not valid UTF-8", place);
    items.emplace_back(key, from_json_at_depth(value, place, depth + 1));
  }
  return Value::mapping(std::move(items));
}

Value from_json_at_depth(const nlohmann::ordered_json& json, std::string_view place, int depth) {
  if (depth > Limits::kValueDepth) template_error("{}: nested more than {} levels deep", place, Limits::kValueDepth);
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::null: return Value();
    case Type::boolean: return Value(json.get<bool>());
    case Type::number_integer: return Value(json.get<std::int64_t>());
    case Type::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        template_error("{}: integer {} does not fit 64 bits", place, number);
      }
      return Value(static_cast<std::int64_t>(number));
    }
    case Type::number_float:
      if (!std::isfinite(json.get<double>())) template_error("{}: a number is not finite", place);
      return Value(json.get<double>());
    case Type::string:
      if (find_invalid_utf8(json.get_ref<const std::string&>()))
        template_error("{}: a string is not valid UTF-8", place);
      return Value(json.get<std::string>());
    case Type::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json_at_depth(item, place, depth + 1));
      return Value::sequence(std::move(items));
    }
    case Type::object: return mapping_from_json(json, place, depth);
    default: template_error("{}: a {} value is not JSON text", place, json.type_name());
  }
}

}  // namespace

Mapping::Mapping(MappingItems given) {  // NOLINT(performance-unnecessary-value-param): its values are moved from
  items.reserve(given.size());          // no key may move once it is viewed
  for (auto& [key, value] : given) {
    raise_height(height, value);
    if (const auto place = places_.find(key); place != places_.end()) {
      items[place->second].second = std::move(value);
      continue;
    }
    items.emplace_back(std::move(key), std::move(value));
    places_.emplace(items.back().first, items.size() - 1);
  }
}

const Value* Mapping::find(std::string_view key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? nullptr : &items[place->second].second;
}

Value Value::undefined(std::string name) {
  Value value;
  value.storage_ = Undefined{std::make_shared<const std::string>(std::move(name))};
  return value;
}

Value Value::sequence(std::vector<Value> items, SequenceKind kind) {
  auto sequence = std::make_shared<Sequence>();
  for (const Value& item : items) raise_height(sequence->height, item);
  sequence->items = std::move(items);
  sequence->kind = kind;
  Value value;
  value.storage_ = std::shared_ptr<const Sequence>(std::move(sequence));
  return value;
}

Value Value::mapping(MappingItems items) {
  Value value;
  value.storage_ = std::make_shared<const Mapping>(std::move(items));
  return value;
}

const std::string* Value::string() const {
  const String* string = get_if<String>();
  return string ? string->get() : nullptr;
}

const Sequence* Value::sequence() const {
  const auto* sequence = get_if<std::shared_ptr<const Sequence>>();
  return sequence ? sequence->get() : nullptr;
}

const Mapping* Value::mapping() const {
  const auto* mapping = get_if<std::shared_ptr<const Mapping>>();
  return mapping ? mapping->get() : nullptr;
}

std::shared_ptr<const Sequence> Value::shared_sequence() const {
  const auto* sequence = get_if<std::shared_ptr<const Sequence>>();
  return sequence ? *sequence : nullptr;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (const bool* boolean = get_if<bool>()) return *boolean;
  if (const auto* integer = get_if<std::int64_t>()) return *integer != 0;
  if (const double* number = get_if<double>()) return *number != 0;
  if (const std::string* text = string()) return !text->empty();
  if (const Mapping* items = mapping()) return !items->items.empty();
  if (const Sequence* items = sequence()) {
    // In Python an iterator is true even when it has nothing to give, which no template can mean.
    if (items->kind == SequenceKind::kIterator) template_error("an iterator has no truth value; add |list");
    return !items->items.empty();
  }
  return true;
}

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"undefined", "none",    "boolean",   "integer", "float",   "string",
                                                "list",      "mapping", "namespace", "loop",    "function"};
  static constexpr std::string_view kSequenceNames[] = {"list", "tuple", "view", "iterator"};
  if (const Sequence* items = sequence()) return kSequenceNames[static_cast<std::size_t>(items->kind)];
  return kNames[storage_.index()];
}

void require_defined(const Value& value, std::string_view user) {
  if (const auto* undefined = value.get_if<Undefined>())
    template_error("{}: '{}' is undefined", user, *undefined->name);
}

const std::string& require_string(const Value& value, std::string_view user) {
  require_defined(value, user);
  const std::string* text = value.string();
  if (text == nullptr) template_error("{}: takes a string, not a value of type {}", user, value.type_name());
  return *text;
}

std::int64_t require_integer(const Value& value, std::string_view user) {
  require_defined(value, user);
  const auto* integer = value.get_if<std::int64_t>();
  if (integer == nullptr) template_error("{}: takes an integer, not a value of type {}", user, value.type_name());
  return *integer;
}

std::vector<Value> walk(const Value& value, std::string_view user, Budget& budget) {
  require_defined(value, user);
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    if (sequence->kind == SequenceKind::kIterator) {
      if (sequence->walked) template_error("{}: the iterator was used before, and can be used once; add |list", user);
      sequence->walked = true;
    }
    budget.spend_bytes(sequence->items.size() * sizeof(Value));
    items = sequence->items;
  } else if (const Mapping* mapping = value.mapping()) {
    for (const auto& [key, ignored] : mapping->items) {
      budget.spend_bytes(sizeof(Value) + key.size());
      items.emplace_back(key);
    }
  } else if (const std::string* text = value.string()) {
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t length = code_point_length((*text)[at]);
      budget.spend_bytes(sizeof(Value) + sizeof(std::string));
      items.emplace_back(text->substr(at, length));
      at += length;
    }
  } else {
    template_error("{}: a value of type {} has no items", user, value.type_name());
  }
  return items;
}

Value from_json(const nlohmann::ordered_json& json, std::string_view place) {
  return from_json_at_depth(json, place, 0);
}

}  // namespace reprofuse::text::jinja
