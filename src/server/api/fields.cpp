#include "server/api/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <unordered_set>

#include "base/json.hpp"
#include "server/api/error.hpp"

namespace reprofuse::server {
namespace {

constexpr int kMaxLevels = 64;
constexpr std::size_t kMaxParamShown = 80;  // of a name that the client made up
constexpr std::size_t kMaxKeys = 1024;      // of one object, in which each key is looked for among all before it

// Checks the parser's events: by itself it takes any depth and the last of equal keys.
class ParserCheck {
 public:
  explicit ParserCheck(const std::string& name) : name_(name) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxLevels) throw bad_request(fmt::format("{} is nested deeper than {} levels", name_, kMaxLevels));
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key) check_key(parsed.get_ref<const std::string&>());
    return true;
  }

 private:
  void check_key(const std::string& key) {
    if (!open_.back().insert(key).second)
      throw bad_request(fmt::format("{} has the key {} twice in one object", name_, shown_value(key)));
    if (open_.back().size() > kMaxKeys)
      throw bad_request(fmt::format("{} has an object of more than {} keys", name_, kMaxKeys));
  }

  const std::string& name_;
  std::vector<std::unordered_set<std::string>> open_;  // the keys of each object that is not closed yet
};

// Whether it is an integer within both [min, max] and the range of int64.
bool is_integer_within(const Json& value, std::int64_t min, std::int64_t max) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return false;
  const auto integer = value.get<std::int64_t>();
  return integer >= min && integer <= max;
}

ApiError not_json(const std::string& name, const std::string& why) {
  return bad_request(fmt::format("{} is not JSON: {}", name, why), std::nullopt, "invalid_json");
}

// Where a text stops being JSON. `byte`, counted from 1, is the last one that the parser has read.
std::string place_of(std::string_view text, std::size_t byte) {
  constexpr std::size_t kShown = 24;
  if (byte > text.size()) return fmt::format("it ends at byte {}, before it is complete", text.size());
  const std::size_t begin = byte - std::min(byte, kShown);
  return fmt::format("it goes wrong at byte {}, at the end of {}", byte,
                     shown_value(std::string(text.substr(begin, byte - begin))));
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

Json parse_object(std::string_view text, const std::string& name) {
  // The parser takes a zero byte for the end and would pass over what follows.
  if (text.find('\0') != std::string_view::npos)
    throw not_json(name, fmt::format("byte {} is zero", text.find('\0') + 1));
  ParserCheck check(name);
  try {
    Json root = Json::parse(
        text, [&](int depth, Json::parse_event_t event, Json& parsed) { return check(depth, event, parsed); });
    if (!root.is_object()) throw bad_request(fmt::format("{} is {}, not a JSON object", name, shown_value(root)));
    return root;
  } catch (const Json::parse_error& error) {
    throw not_json(name, place_of(text, error.byte));
  } catch (const Json::out_of_range&) {
    throw bad_request(fmt::format("{} has a number beyond FP64", name));
  }
}

std::string shown_value(const Json& value) {
  return shown(nlohmann::json(value));
}

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
      throw bad_request(
          fmt::format("{} is {}; only {} is supported", name(allowed.key), shown_value(*value), allowed.json),
          name(allowed.key), "unsupported_value");
  }
}

void Fields::refuse_the_rest() const {
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key))
      throw bad_request(fmt::format("unrecognized request argument supplied: {}", shown_value(name(key))),
                        name(key).substr(0, kMaxParamShown), "unknown_parameter");
  }
}

void Fields::fail_value(std::string_view key, const Json& value, std::string_view wanted) const {
  throw bad_request(fmt::format("{} is {}, not {}", name(key), shown_value(value), wanted), name(key), "invalid_value");
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
          fmt::format("{}[{}] is {}, not a token id from 0 to {}", name, ids.size(), shown_value(id), vocabulary - 1),
          name, "invalid_value");
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace reprofuse::server
