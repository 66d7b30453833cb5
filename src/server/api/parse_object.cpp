// A body as a tree of values, built from the parser's events: linear in time, and counted before it is built.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "server/api/error.hpp"
#include "server/api/json.hpp"

namespace reprofuse::server {
namespace {

constexpr std::size_t kMaxLevels = 64;
constexpr std::size_t kMaxKeys = 1024;      // of one object
constexpr std::size_t kMaxEntries = 16384;  // of one list, but for numbers: prompts may be lists of token ids
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;  // of all values

constexpr std::size_t kValueBytes = 2 * sizeof(Json);  // in a list that grows
constexpr std::size_t kTextBytes = 64;                 // of a string, beside its letters
constexpr std::size_t kContainerBytes = 64;
constexpr std::size_t kKeyBytes = 160;  // in an object, and among the keys of the open ones
constexpr std::size_t kStep = std::size_t{64} << 10;

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

class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(const RequestBody& body, const std::string& name, std::span<const std::string_view> passed_over,
          std::size_t max_numbers)
      : body_(body), name_(name), passed_over_(passed_over), max_numbers_(std::max(max_numbers, kMaxEntries)) {}

  OwnedJson& root() { return root_; }

  bool null() override { return add(nullptr, 0); }
  bool boolean(bool value) override { return add(value, 0); }
  bool number_integer(number_integer_t value) override { return add(value, 0); }
  bool number_unsigned(number_unsigned_t value) override { return add(value, 0); }
  bool number_float(number_float_t value, const string_t&) override { return add(value, 0); }
  bool string(string_t& value) override {
    const std::size_t bytes = kTextBytes + value.size();
    return add(is_passed_over_ ? Json() : Json(std::move(value)), bytes);
  }
  bool binary(binary_t&) override { return false; }  // JSON has none

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

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
    if (uncounted_ < kStep || body_.guard == nullptr) return;
    body_.guard->claim_memory(uncounted_);
    uncounted_ = 0;
  }

  // Its place in the tree; null: it is passed over.
  Json* put(Json value, std::size_t bytes) {
    count(is_passed_over_ ? 1 : kValueBytes + bytes);
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

  bool add(Json value, std::size_t bytes) {
    put(std::move(value), bytes);
    return true;
  }

  bool open(Json container) {
    if (levels_.size() >= kMaxLevels)
      throw bad_request(fmt::format("{} is nested deeper than {} levels", name_, kMaxLevels));
    Json* place = put(std::move(container), kContainerBytes);
    levels_.push_back({.value = place, .entries = 0, .keys = {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

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
  Builder builder(body, name, passed_over, max_numbers);
  Json::sax_parse(body.text, &builder);
  if (!builder.root()->is_object())
    throw bad_request(fmt::format("{} is {}, not a JSON object", name, shown(*builder.root())));
  return std::move(builder.root());
}

}  // namespace reprofuse::server
