#include "base/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/files.hpp"

namespace reprofuse {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxShown = 80;

// Of what is kept, at least: a value in a list that grows, a string or container beside it, a key in an object.
constexpr std::size_t kValueBytes = 2 * sizeof(Json), kContentBytes = 64, kKeyBytes = 128;

// As JSON in ASCII. No byte becomes shorter, so those that are left out would not be shown.
void append_shown(std::string_view text, std::string& all) {
  constexpr std::size_t kEnough = kMaxShown + 16;
  all += Json(text.substr(0, kEnough)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

template <typename AnyJson>
void append_shown(const AnyJson& value, std::string& all) {
  if (const auto* text = value.template get_ptr<const std::string*>())
    return append_shown(std::string_view(*text), all);
  if (!value.is_structured()) {
    all += value.dump();
    return;
  }
  const char* separator = "";
  const auto append = [&](const std::string* key, const AnyJson& entry) {
    all += std::exchange(separator, ",");
    if (key != nullptr) append_shown(std::string_view(*key), all);
    if (key != nullptr) all += ':';
    append_shown(entry, all);
    return all.size() <= kMaxShown;
  };
  if (const auto* list = value.template get_ptr<const typename AnyJson::array_t*>()) {
    all += '[';
    for (const AnyJson& entry : *list)
      if (!append(nullptr, entry)) return;
    all += ']';
  } else {
    all += '{';
    for (const auto& [key, entry] : value.template get_ref<const typename AnyJson::object_t&>())
      if (!append(&key, entry)) return;
    all += '}';
  }
}

template <typename Value>
std::string shown_of(const Value& value, bool is_string) {
  std::string text;
  append_shown(value, text);
  if (is_string) text.front() = text.back() = '\'';
  if (text.size() > kMaxShown) text.replace(kMaxShown, std::string::npos, "...");
  return text;
}

// The parser's own tree builder looks through a list again whenever one of its entries ends, if it is to be checked.
class TreeBuilder final : public JsonBuilder<Json> {
 public:
  TreeBuilder(const std::string& file, const JsonLimits& limits) : file_(file), limits_(limits) {}

  Json& root() { return *root_; }

  bool key(string_t& key) override {
    Level& level = levels_.back();
    count(kKeyBytes + key.size());
    const auto [place, is_new] = level.value->get_ref<Json::object_t&>().try_emplace(std::move(key));
    if (!is_new) fail(ErrorCode::kInvalidArgument, "{}: key {} is given twice", file_, shown(place->first));
    level.key = &place->first;
    level.slot = &place->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    if (const auto* malformed = dynamic_cast<const Json::parse_error*>(&error)) throw *malformed;
    throw dynamic_cast<const Json::out_of_range&>(error);  // the only other one: a number beyond FP64
  }

 private:
  struct Level {
    Json* value;
    const std::string* key = nullptr;  // of an object: the last one,
    Json* slot = nullptr;              // and where its value goes
  };

  Json* put(Json value) override {
    if (const auto* text = value.get_ptr<const std::string*>()) count(kContentBytes + text->size());
    if (++values_ > limits_.values)
      fail(ErrorCode::kInvalidArgument, "{}: has more than {} values; {}", file_, limits_.values, place());
    count(kValueBytes);
    if (levels_.empty()) return &(*root_ = std::move(value));
    Level& level = levels_.back();
    if (level.slot != nullptr) return &(*level.slot = std::move(value));
    level.value->push_back(std::move(value));
    return &level.value->back();
  }

  // Containers that are open do not move: only the innermost grows.
  void open(Json container) override {
    require(levels_.size() < limits_.depth, "{}: nested deeper than {} levels", file_, limits_.depth);
    count(kContentBytes);
    levels_.push_back({put(std::move(container))});
  }

  void close() override { levels_.pop_back(); }

  void count(std::size_t bytes) {
    unclaimed_ += bytes;
    if (unclaimed_ < ReadGuard::kStep || limits_.guard == nullptr) return;
    limits_.guard->claim_memory(std::exchange(unclaimed_, 0));
  }

  // Where the parser is: "the last one is in model.merges".
  std::string place() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.key == nullptr) continue;
      path += (path.empty() ? "" : ".") + *level.key;
    }
    return path.empty() ? "it is one list" : "the last one is in " + shown(path);
  }

  const std::string& file_;
  const JsonLimits& limits_;
  BasicOwnedJson<Json> root_;
  std::vector<Level> levels_;
  std::size_t values_ = 0, unclaimed_ = 0;
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  // The parser takes a zero byte for the end and would pass over what follows.
  const std::size_t zero = text.find('\0');
  require(zero == std::string_view::npos, "{}: byte {} is zero", file, zero + 1);
  TreeBuilder builder(file, limits);
  Json::sax_parse(text, &builder);
  return std::move(builder.root());
}

std::string json_problem(const std::exception& error) {
  constexpr int kNoObject = 304, kNoKey = 403;
  const std::string_view what = error.what();
  if (const auto* malformed = dynamic_cast<const Json::parse_error*>(&error)) {
    const auto says = [&](std::string_view words) { return what.find(words) != std::string_view::npos; };
    if (!says("unexpected end of input") && !says("missing closing quote"))
      return fmt::format("byte {} is not what JSON has there", malformed->byte);
    return malformed->byte <= 1 ? "it is empty" : fmt::format("it ends too early, after {} bytes", malformed->byte - 1);
  }
  const auto* other = dynamic_cast<const Json::exception*>(&error);
  const int id = other == nullptr ? 0 : other->id;
  if (id == kNoObject) return "something else stands where an object is expected";
  const std::string_view words =
      what.substr(std::min(what.find("] ") + 2, what.size()));  // without "[json.exception...]"
  if (id == kNoKey) return fmt::format("it has no {}", words.substr(4, words.rfind(" not found") - 4));
  return std::string(words.substr(0, 80));
}

std::string shown(const nlohmann::json& value) {
  return shown_of(value, value.is_string());
}

std::string shown(const nlohmann::ordered_json& value) {
  return shown_of(value, value.is_string());
}

std::string shown(const std::string& text) {
  return shown_of(std::string_view(text), true);
}

std::string shown(std::string_view text) {
  return shown_of(text, true);
}

namespace {

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
    Json root = parse_json(text, file, {.depth = 16});
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

}  // namespace reprofuse
