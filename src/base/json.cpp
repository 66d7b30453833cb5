#include "base/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/check.hpp"

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

}  // namespace reprofuse
