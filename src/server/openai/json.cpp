#include "server/openai/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/nearest_name.hpp"
#include "server/openai/error.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::server {
namespace {

constexpr std::size_t kMaxLevels = JsonLimits{}.depth;
constexpr std::size_t kMaxKeys = 1024;      // of one object
constexpr std::size_t kMaxEntries = 16384;  // of one list, but for numbers: prompts may be lists of token ids
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;  // of all values

constexpr std::size_t kValueBytes = 2 * sizeof(Json);  // in a list that grows
constexpr std::size_t kContentBytes = 64;              // of a string, beside its letters, or of a container
constexpr std::size_t kKeyBytes = 160;                 // in an object, and among the keys of the open ones

ApiError not_json(const std::string& name, const std::string& why) {
  return bad_request(fmt::format("{} is not JSON: {}", name, why), std::nullopt, "invalid_json");
}

// Where a text stops being JSON. `byte`, counted from 1, is the last one that the parser has read.
std::string place_of(std::string_view text, std::size_t byte) {
  constexpr std::size_t kShown = 24;
  if (byte > text.size()) return fmt::format("it ends at byte {}, before it is complete", text.size());
  const std::size_t begin = byte - std::min(byte, kShown);
  return fmt::format("it goes wrong at byte {}, at the end of {}", byte, shown(text.substr(begin, byte - begin)));
}

// A body as a tree of values, built from the parser's events: linear in time, and counted before it is built.
class BodyBuilder final : public JsonBuilder<Json> {
 public:
  BodyBuilder(const RequestBody& body, const std::string& name, std::span<const std::string_view> passed_over,
              std::size_t max_numbers)
      : body_(body), name_(name), passed_over_(passed_over), max_numbers_(std::max(max_numbers, kMaxEntries)) {}

  OwnedJson& root() { return root_; }

  bool key(string_t& key) override {
    Level& level = levels_.back();
    if (++level.entries > kMaxKeys)
      throw bad_request(fmt::format("{} has an object of more than {} keys", name_, kMaxKeys));
    count(is_passed_over_ && levels_.size() > 1 ? 1 : kKeyBytes + 2 * key.size());
    if (!level.keys.insert(key).second)
      throw bad_request(fmt::format("{} has the key {} twice in one object", name_, shown(key)));
    if (levels_.size() == 1)
      is_passed_over_ = std::find(passed_over_.begin(), passed_over_.end(), key) != passed_over_.end();
    if (is_passed_over_ && levels_.size() > 1) return true;
    slot_ = &add_key(*level.value, std::move(key));
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const Json::exception& error) override {
    constexpr int kBeyondFp64 = 406;
    if (error.id == kBeyondFp64) throw bad_request(fmt::format("{} has a number beyond FP64", name_));
    throw not_json(name_, place_of(body_.text, byte));
  }

 private:
  struct Level {
    Json* value;  // where it is not passed over
    std::size_t entries = 0;
    std::unordered_set<std::string> keys;  // of an object
  };

  void count(std::size_t bytes) {
    all_ += bytes;
    uncounted_ += bytes;
    if (all_ > kMaxBytes)
      throw ApiError(413, "invalid_request_error",
                     fmt::format("what {} holds would take more than {} MiB of memory", name_, kMaxBytes >> 20),
                     std::nullopt, "body_too_large");
    if (uncounted_ < ReadGuard::kStep || body_.guard == nullptr) return;
    body_.guard->claim_memory(std::exchange(uncounted_, 0));
  }

  // Its place in the tree; null: it is passed over.
  Json* put(Json value) override {
    const auto* text = value.get_ptr<const std::string*>();
    const std::size_t beside = text != nullptr         ? kContentBytes + text->size()
                               : value.is_structured() ? kContentBytes
                                                       : 0;
    count(is_passed_over_ ? 1 : kValueBytes + beside);
    if (levels_.empty()) return &(*root_ = std::move(value));
    Level& level = levels_.back();
    const bool is_in_list = level.value == nullptr || level.value->is_array();
    if (is_in_list && !value.is_number() && !is_passed_over_ && ++level.entries > kMaxEntries)
      throw bad_request(fmt::format("{} has a list of more than {} entries that are no numbers", name_, kMaxEntries));
    if (is_passed_over_) return nullptr;
    if (is_in_list && value.is_number() && level.value->size() >= max_numbers_)
      throw bad_request(fmt::format("{} has a list of more than {} numbers; no context of this server is longer", name_,
                                    max_numbers_),
                        std::nullopt, "context_length_exceeded");
    if (!is_in_list) return &(*slot_ = std::move(value));
    level.value->push_back(std::move(value));
    return &level.value->back();
  }

  void open(Json container) override {
    if (levels_.size() >= kMaxLevels)
      throw bad_request(fmt::format("{} is nested deeper than {} levels", name_, kMaxLevels));
    Json* place = put(std::move(container));
    levels_.push_back({.value = place, .entries = 0, .keys = {}});
  }

  void close() override { levels_.pop_back(); }

  const RequestBody& body_;
  const std::string& name_;
  std::span<const std::string_view> passed_over_;
  std::size_t max_numbers_;  // of one list
  OwnedJson root_;
  std::vector<Level> levels_;
  Json* slot_ = nullptr;  // for the value of the last key
  bool is_passed_over_ = false;
  std::size_t all_ = 0, uncounted_ = 0;
};

}  // namespace

Json& add_key(Json& object, std::string key) {
  using Pairs = std::vector<std::pair<const std::string, Json>>;
  auto& pairs = static_cast<Pairs&>(object.get_ref<Json::object_t&>());
  if (pairs.size() == pairs.capacity()) {
    Pairs grown;
    grown.reserve(2 * pairs.size() + 1);
    for (const auto& pair : pairs) grown.emplace_back(pair.first, nullptr);
    for (std::size_t i = 0; i < pairs.size(); ++i) grown[i].second.swap(pairs[i].second);
    pairs.swap(grown);
  }
  // Not by the object's own emplace, which looks through all keys before.
  return pairs.emplace_back(std::move(key), nullptr).second;
}

OwnedJson parse_object(const RequestBody& body, const std::string& name, std::span<const std::string_view> passed_over,
                       std::size_t max_numbers) {
  // The parser takes a zero byte for the end and would pass over what follows.
  if (const std::size_t zero = body.text.find('\0'); zero != std::string_view::npos)
    throw not_json(name, fmt::format("byte {} is zero", zero + 1));
  BodyBuilder builder(body, name, passed_over, max_numbers);
  Json::sax_parse(body.text, &builder);
  if (!builder.root()->is_object())
    throw bad_request(fmt::format("{} is {}, not a JSON object", name, shown(*builder.root())));
  return std::move(builder.root());
}

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
  return fmt::format("a number of at least {} that FP32 can hold", min);
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

void Fields::ignore(std::span<const std::string_view> keys) {
  known_.insert(keys.begin(), keys.end());
}

void Fields::allow_only(std::span<const FixedValue> values) {
  for (const FixedValue& fixed : values) {
    const Json* value = find(fixed.key);
    if (value != nullptr && *value != Json::parse(fixed.json))
      throw bad_request(fmt::format("{} is {}; only {} is supported", name(fixed.key), shown(*value), fixed.json),
                        name(fixed.key), "unsupported_value");
  }
}

void Fields::refuse_the_rest() const {
  for (const auto& [key, value] : object_.items()) {
    if (known_.contains(key)) continue;
    const std::size_t far = std::min<std::size_t>(3, (key.size() + 1) / 2);  // most of a short name must be there
    std::vector<std::string> names;
    for (const std::string& known : known_) names.push_back(name(known));
    throw bad_request(fmt::format("unrecognized request argument supplied: {}{}", shown(name(key)),
                                  suggest_name(name(key), names, far)),
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
