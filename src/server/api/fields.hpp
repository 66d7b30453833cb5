// The body of a request, read strictly: a field is asked for, known to be harmless, or refused. Nothing that a client
// sends is passed over in silence, since it may have been meant to change the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"

namespace reprofuse::server {

using Json = nlohmann::ordered_json;  // what a chat template prints keeps the client's order

struct RequestBody {
  std::string_view text;
  ReadGuard* guard = nullptr;  // none: what is read has no limit but its own

  template <typename Text>
  RequestBody(const Text& text_of, ReadGuard* guard_of = nullptr) : text(text_of), guard(guard_of) {}  // NOLINT
};

using OwnedJson = BasicOwnedJson<Json>;

// The object that a body, or a string in it, holds; `name` is what errors call the text. Throws a 400 for malformed
// JSON, a key given twice, and more keys, entries or levels than any request has, and a 413 for one that would take too
// much memory, or has a list of more numbers than `max_numbers` and than lists may have entries of other kinds. Time
// and memory are linear in the text. What `passed_over` names is checked, and null.
OwnedJson parse_object(const RequestBody& body, const std::string& name = "the body",
                       std::span<const std::string_view> passed_over = {}, std::size_t max_numbers = SIZE_MAX);

// Adds a key that the object does not have. The library's own way copies all values when there is no room, and drops
// the copied ones, which needs memory.
Json& add_key(Json& object, std::string key);

struct AllowedValue {
  std::string_view key;
  std::string_view json;  // the only value that is supported; null says the same
};

class Fields {
 public:
  // `path` stands before each key in messages: "stream_options." The object must outlive the fields.
  explicit Fields(const Json& object, std::string path = "") : object_(object), path_(std::move(path)) {}

  // The value, or none when the key is absent or null. From here on the key counts as known.
  const Json* find(std::string_view key);

  // None when absent; a 400 for a value of another type or outside [min, max].
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::optional<float> number(std::string_view key, float min, float max);
  std::optional<std::string> string(std::string_view key);
  std::optional<Fields> object(std::string_view key);
  // A list of integers, at most `max_count` of them; empty when absent.
  std::vector<std::int32_t> ids(std::string_view key, std::int64_t vocabulary, std::size_t max_count);

  void accept(std::span<const std::string_view> keys);  // whatever their values
  void allow_only(std::span<const AllowedValue> values);
  void refuse_the_rest() const;  // call last: a 400 for the first key that is not known

  std::string name(std::string_view key) const { return path_ + std::string(key); }
  [[noreturn]] void fail_value(std::string_view key, const Json& value, std::string_view wanted) const;
  [[noreturn]] void fail_missing(std::string_view key) const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

// Token ids in [0, vocabulary), from a list in the body; `name` is what errors call it.
std::vector<std::int32_t> read_token_ids(const Json& list, std::int64_t vocabulary, const std::string& name);

}  // namespace reprofuse::server
