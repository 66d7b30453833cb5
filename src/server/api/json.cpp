#include "server/api/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "server/api/error.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::server {
namespace {

constexpr std::size_t kMaxParamShown = 80;  // of a name that the client made up

// Whether it is an integer within both [min, max] and the range of int64.
bool is_integer_within(const Json& value, std::int64_t min, std::int64_t max) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return false;
  const auto integer = value.get<std::int64_t>();
  return integer >= min && integer <= max;
}

// What a field may hold, without a bound that only the type of a variable sets.
std::string integers_within(std::int64_t min, std::int64_t max) {
  if (max != INT64_MAX && max != INT32_MAX) return fmt::format("an integer from {} to {}", min, max);
  const std::string kind = fmt::format("an integer of {} bits", max == INT64_MAX ? 64 : 32);
  return min == INT32_MIN ? kind : fmt::format("{}, at least {}", kind, min);
}

std::string numbers_within(float min, float max) {
  if (max != FLT_MAX) return fmt::format("a number from {} to {}", min, max);
  const std::string least = min == FLT_MIN ? "a number above 0" : fmt::format("a number of at least {}", min);
  return least + " that FP32 can hold";
}

}  // namespace

const Json* Fields::find(std::string_view key) {
  known_.emplace(key);
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<bool> Fields::boolean(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_value(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!is_integer_within(*value, min, max)) fail_value(key, *value, integers_within(min, max));
  return value->get<std::int64_t>();
}

std::optional<float> Fields::number(std::string_view key, float min, float max) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number() && std::abs(value->get<double>()) <= FLT_MAX) {
    const auto narrowed = value->get<float>();
    if (narrowed >= min && narrowed <= max) return narrowed;
  }
  fail_value(key, *value, numbers_within(min, max));
}

std::optional<std::string> Fields::string(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_value(key, *value, "a string");
  return value->get<std::string>();
}

std::optional<Fields> Fields::object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail_value(key, *value, "an object");
  return Fields(*value, name(key) + ".");
}

std::vector<std::int32_t> Fields::ids(std::string_view key, std::int64_t vocabulary, std::size_t max_count) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array() || value->size() > max_count)
    fail_value(key, *value, fmt::format("a list of at most {} token ids", max_count));
  return read_token_ids(*value, vocabulary, name(key));
}

void Fields::accept(std::span<const std::string_view> keys) {
  known_.insert(keys.begin(), keys.end());
}

void Fields::allow_only(std::span<const AllowedValue> values) {
  for (const AllowedValue& allowed : values) {
    const Json* value = find(allowed.key);
    if (value != nullptr && *value != Json::parse(allowed.json))
      throw bad_request(fmt::format("{} is {}; only {} is supported", name(allowed.key), shown(*value), allowed.json),
                        name(allowed.key), "unsupported_value");
  }
}

void Fields::refuse_the_rest() const {
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key))
      throw bad_request(fmt::format("unrecognized request argument supplied: {}", shown(name(key))),
                        name(key).substr(0, kMaxParamShown), "unknown_parameter");
  }
}

void Fields::fail_value(std::string_view key, const Json& value, std::string_view wanted) const {
  throw bad_request(fmt::format("{} is {}, not {}", name(key), shown(value), wanted), name(key), "invalid_value");
}

void Fields::fail_missing(std::string_view key) const {
  throw bad_request(fmt::format("{} is missing", name(key)), name(key), "missing_required_parameter");
}

std::vector<std::int32_t> read_token_ids(const Json& list, std::int64_t vocabulary, const std::string& name) {
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    if (!is_integer_within(id, 0, vocabulary - 1))
      throw bad_request(
          fmt::format("{}[{}] is {}, not a token id from 0 to {}", name, ids.size(), shown(id), vocabulary - 1), name,
          "invalid_value");
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

namespace {

void append_escaped(unsigned char letter, std::string& text) {
  switch (letter) {
    case '"': text += "\\\""; return;
    case '\\': text += "\\\\"; return;
    case '\b': text += "\\b"; return;
    case '\f': text += "\\f"; return;
    case '\n': text += "\\n"; return;
    case '\r': text += "\\r"; return;
    case '\t': text += "\\t"; return;
    default: fmt::format_to(std::back_inserter(text), "\\u{:04x}", letter);
  }
}

}  // namespace

void JsonWriter::begin_value() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  begin_value();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view key) {
  string(key);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

// By the function that dump() calls: std::to_chars gives some values other digits.
JsonWriter& JsonWriter::number(double value) {
  if (!std::isfinite(value)) return raw("null");
  std::array<char, 64> digits = {};
  const char* end = nlohmann::detail::to_chars(digits.data(), digits.data() + digits.size(), value);
  return raw({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

JsonWriter& JsonWriter::string(std::string_view text) {
  if (text::find_invalid_utf8(text)) return string(text::utf8_replacing(text));
  begin_value();
  text_ += '"';
  std::size_t plain = 0;  // where what needs no escape begins
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<unsigned char>(text[i]);
    if (letter >= ' ' && letter != '"' && letter != '\\') continue;
    text_ += text.substr(plain, i - plain);
    append_escaped(letter, text_);
    plain = i + 1;
  }
  text_ += text.substr(plain);
  text_ += '"';
  return *this;
}

}  // namespace reprofuse::server
