// JSON in and out: bodies of requests, read strictly, and replies, written as text.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.hpp"

namespace reprofuse::server {

// The body of a request, read strictly: a field is asked for, known to be harmless, or refused. Nothing that a client
// sends is passed over in silence, since it may have been meant to change the answer.

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

// Not a JsonReader: what it refuses is a 400 that names the field, for the client.
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

  void ignore(std::span<const std::string_view> keys);  // whatever their values
  void allow_only(std::span<const FixedValue> values);
  void refuse_the_rest() const;  // call last: a 400 for the first key that is not known, with the nearest

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

// JSON as text, written in the order in which it stands there. No tree of values is built, so a reply takes the memory
// of its text and nothing has to be taken apart when memory runs out.
// The bytes are those of nlohmann's dump(): no white space, UTF-8 with U+FFFD for what is none, and numbers with as
// many digits as give back the binary64 value.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& text) : text_(text) {}  // appends to it

  // What `content` writes: fields, or values.
  template <typename Content>
  JsonWriter& object(Content content) {
    return enclose('{', content, '}');
  }
  template <typename Content>
  JsonWriter& array(Content content) {
    return enclose('[', content, ']');
  }

  JsonWriter& key(std::string_view key);  // a value, an object or an array follows

  // null, a boolean, a number, a string, a list of such, or null in place of an optional one that is not there.
  template <typename Value>
  JsonWriter& value(const Value& value) {
    if constexpr (std::same_as<Value, std::nullptr_t>)
      return raw("null");
    else if constexpr (std::same_as<Value, bool>)
      return raw(value ? "true" : "false");
    else if constexpr (std::integral<Value>)
      return raw(std::to_string(value));
    else if constexpr (std::floating_point<Value>)
      return number(value);
    else if constexpr (std::convertible_to<Value, std::string_view>)
      return string(value);
    else if constexpr (requires { value.has_value(); })
      return value ? this->value(*value) : raw("null");
    else
      return array([&] {
        for (const auto& entry : value) this->value(entry);
      });
  }

  template <typename Value>
  JsonWriter& field(std::string_view name, const Value& value) {
    return key(name).value(value);
  }

  JsonWriter& raw(std::string_view json);  // a value that is JSON already

 private:
  template <typename Content>
  JsonWriter& enclose(char open, Content& content, char close) {
    begin_value();
    text_ += open;
    needs_comma_ = false;
    content();
    text_ += close;
    needs_comma_ = true;
    return *this;
  }

  void begin_value();
  JsonWriter& number(double value);
  JsonWriter& string(std::string_view text);

  std::string& text_;
  bool needs_comma_ = false;  // before the next key or value
};

// The text of an object whose fields are what `content` writes.
template <typename Content>
std::string json_object(Content content) {
  std::string text;
  JsonWriter json(text);
  json.object([&] { content(json); });
  return text;
}

}  // namespace reprofuse::server
