#include "checkpoint/json_reader.hpp"

#include <nlohmann/json.hpp>
#include <span>

#include "base/check.hpp"
#include "base/source_file.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr JsonLimits kLimits = {.depth = 16};

std::int64_t checked_integer(const JsonReader& reader, std::string_view key, const Json& value, std::int64_t min,
                             std::int64_t max) {
  const std::string wanted = fmt::format("an integer from {} to {}", min, max);
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT64_MAX : value.is_number_integer();
  if (!fits) reader.fail_value(key, value, wanted);
  const auto integer = value.get<std::int64_t>();
  if (integer < min || integer > max) reader.fail_value(key, value, wanted);
  return integer;
}

}  // namespace

std::string read_text_file(const std::string& path, const std::string& file, std::size_t max_bytes) {
  const SourceFile source(path);
  require(source.size() <= max_bytes, "{}: {} bytes, more than the {} that such a file may have", file, source.size(),
          max_bytes);
  std::string text(source.size(), '\0');
  source.read_into(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

Json parse_json_object(std::string_view text, const std::string& file) {
  try {
    Json root = parse_json(text, file, kLimits);
    require(root.is_object(), "{}: holds {} where an object is expected", file, shown(root));
    return root;
  } catch (const Json::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: is not valid JSON: {}", file, error.what());
  }
}

std::string Shown::text() const {
  return shown(Json(name));
}

JsonReader::JsonReader(const Json& object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {}

const Json* JsonReader::find(std::string_view key) {
  known_.emplace(key);
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

bool JsonReader::has(std::string_view key) const {
  return object_.contains(key);
}

std::int64_t JsonReader::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const auto value = optional_integer(key, min, max);
  if (!value) fail_missing(key);
  return *value;
}

std::optional<std::int64_t> JsonReader::optional_integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return checked_integer(*this, key, *value, min, max);
}

double JsonReader::number(std::string_view key, double min, double max) {
  const auto value = optional_number(key, min, max);
  if (!value) fail_missing(key);
  return *value;
}

std::optional<double> JsonReader::optional_number(std::string_view key, double min, double max) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number() && value->get<double>() >= min && value->get<double>() <= max;
  if (!fits) fail_value(key, *value, fmt::format("a number from {} to {}", min, max));
  return value->get<double>();
}

std::optional<bool> JsonReader::optional_boolean(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_value(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonReader::optional_string(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_value(key, *value, "a string");
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> JsonReader::optional_strings(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) fail_value(key, *value, "a list of strings");
  std::vector<std::string> strings;
  for (const Json& entry : *value) {
    if (!entry.is_string()) fail_value(key, *value, "a list of strings");
    strings.push_back(entry.get<std::string>());
  }
  return strings;
}

std::vector<std::int64_t> JsonReader::integers(std::string_view key, std::int64_t min, std::int64_t max) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {checked_integer(*this, key, *value, min, max)};
  std::vector<std::int64_t> integers;
  for (const Json& entry : *value) integers.push_back(checked_integer(*this, key, entry, min, max));
  return integers;
}

std::optional<JsonReader> JsonReader::optional_object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail_value(key, *value, "an object");
  return JsonReader(*value, file_, fmt::format("{}{}.", path_, key));
}

void JsonReader::ignore(std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) known_.emplace(key);
}

void JsonReader::allow_only(std::span<const FixedValue> values) {
  for (const FixedValue& fixed : values) {
    const Json* value = find(fixed.key);
    if (value != nullptr && *value != Json::parse(fixed.json)) fail_unsupported(fixed.key, *value);
  }
}

void JsonReader::refuse_the_rest() const {
  for (const auto& [key, value] : object_.items())
    if (!known_.contains(key))
      fail(ErrorCode::kUnsupported, "{}: key {} with value {} is not understood", file_, Shown{path_ + key},
           shown(value));
}

void JsonReader::fail_missing(std::string_view key) const {
  fail(ErrorCode::kInvalidArgument, "{}: key '{}{}' is missing", file_, path_, key);
}

void JsonReader::fail_unsupported(std::string_view key, const Json& value) const {
  fail(ErrorCode::kUnsupported, "{}: {}{} {} is not supported", file_, path_, key, shown(value));
}

void JsonReader::fail_value(std::string_view key, const Json& value, std::string_view wanted) const {
  fail(ErrorCode::kInvalidArgument, "{}: {}{} is {}, not {}", file_, path_, key, shown(value), wanted);
}

}  // namespace reprofuse::checkpoint
