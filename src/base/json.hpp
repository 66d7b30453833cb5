// JSON of files and of strangers: strict parsing, values in messages, and values that are dropped without memory.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprofuse {

// Asked while something is read: for memory, before it is taken, and whether anyone still waits. Throws if not.
class ReadGuard {
 public:
  static constexpr std::size_t kStep = std::size_t{64} << 10;  // bytes that a reader may need before it asks

  virtual ~ReadGuard() = default;
  virtual void claim_memory(std::size_t bytes) = 0;
};

// What a document may hold. The largest tokenizer files that are published have some two million values.
struct JsonLimits {
  std::size_t depth = 64;         // of lists and objects within each other
  std::size_t values = 1U << 22;  // of all kinds, lists and objects included
  ReadGuard* guard = nullptr;     // none: what is read has no limit but its own
};

// The value that `text` holds, in time linear in its length but for looking up keys. A key given twice is an error,
// since one of its values would be passed over, and so are a zero byte and what goes beyond the limits. Malformed text
// throws nlohmann::json::exception: each reader has words of its own.
nlohmann::json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits = {});

// The parser's events for whoever builds values of them: each as a value that stands by itself, the beginning of a list
// or an object, or its end. Whoever does not want to go on throws.
template <typename Json>
class JsonBuilder : public nlohmann::json_sax<Json> {
 public:
  using Sax = nlohmann::json_sax<Json>;

  bool null() final { return add(nullptr); }
  bool boolean(bool value) final { return add(value); }
  bool number_integer(typename Sax::number_integer_t value) final { return add(value); }
  bool number_unsigned(typename Sax::number_unsigned_t value) final { return add(value); }
  bool number_float(typename Sax::number_float_t value, const typename Sax::string_t&) final { return add(value); }
  bool string(typename Sax::string_t& value) final { return add(std::move(value)); }
  bool binary(typename Sax::binary_t&) final { return false; }  // JSON has none
  bool start_object(std::size_t) final { return open(Json::object()), true; }
  bool start_array(std::size_t) final { return open(Json::array()), true; }
  bool end_object() final { return close(), true; }
  bool end_array() final { return close(), true; }

 private:
  bool add(Json value) { return put(std::move(value)), true; }

  virtual Json* put(Json value) = 0;  // where it was put
  virtual void open(Json container) = 0;
  virtual void close() = 0;
};

// What a nlohmann::json::exception says, in words of ours and without the text: "it ends too early, after 3000 bytes".
std::string json_problem(const std::exception& error);

// The value as an error message shows it: strings in single quotes, long values cut. Neither copied nor looked at
// beyond what is shown.
std::string shown(const nlohmann::json& value);
std::string shown(const nlohmann::ordered_json& value);
std::string shown(const std::string& text);
std::string shown(std::string_view text);

// From the inside out; as deep as a parser lets values be nested.
template <typename Json>
void take_apart(Json& value) noexcept {
  if (auto* list = value.template get_ptr<typename Json::array_t*>()) {
    for (Json& entry : *list) take_apart(entry);
    list->clear();
  } else if (auto* object = value.template get_ptr<typename Json::object_t*>()) {
    for (auto& [key, entry] : *object) take_apart(entry);
    object->clear();
  }
}

// A value that is dropped without memory: the library's own destructor needs some, and ends the process if there is
// none. What strangers send is kept in these.
template <typename Json>
class BasicOwnedJson {
 public:
  BasicOwnedJson() = default;
  BasicOwnedJson(Json value) noexcept { value_.swap(value); }  // NOLINT: what a value is moved into
  BasicOwnedJson(BasicOwnedJson&& other) noexcept { value_.swap(other.value_); }
  BasicOwnedJson& operator=(BasicOwnedJson&& other) noexcept {
    value_.swap(other.value_);
    return *this;
  }
  ~BasicOwnedJson() { take_apart(value_); }

  Json& operator*() { return value_; }
  const Json& operator*() const { return value_; }
  Json* operator->() { return &value_; }
  const Json* operator->() const { return &value_; }

 private:
  Json value_;
};

// The text of a file, refused when it is longer than `max_bytes`: these files are small, and a hostile one may not be.
std::string read_text_file(const std::string& path, const std::string& file, std::size_t max_bytes);

// The object that `text` holds. Throws for malformed JSON, a key given twice, and nesting that no such file has.
nlohmann::json parse_json_object(std::string_view text, const std::string& file);

// A name that a file holds as shown() shows it, worked out only when a message is made: fmt::format("{}", Shown{name}).
struct Shown {
  std::string_view name;
  std::string text() const;
};

// A key of an object that is read strictly, and the only value of it that is implemented; null says the same.
struct FixedValue {
  std::string_view key;
  std::string_view json;
};

// An object of a file, read strictly: each key is either asked for or refused, and every refusal names file, key and
// value. What clients send has readers with errors of its own, and tokenizer.json one for trees.
class JsonReader {
 public:
  // `path` stands before each key in messages: "rope_scaling." The object must outlive the reader.
  JsonReader(const nlohmann::json& object, std::string file, std::string path = "");

  const std::string& file() const { return file_; }

  // The value, or none when the key is absent or null. From here on the key counts as understood.
  const nlohmann::json* find(std::string_view key);

  // With and without a value; a value of another type or out of [min, max] is an error.
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t min, std::int64_t max);
  double number(std::string_view key, double min, double max);
  std::optional<double> optional_number(std::string_view key, double min, double max);
  std::optional<bool> optional_boolean(std::string_view key);
  std::optional<std::string> optional_string(std::string_view key);
  std::optional<std::vector<std::string>> optional_strings(std::string_view key);
  // An integer or a list of integers; empty when there is none.
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t min, std::int64_t max);
  // A reader of the object under the key.
  std::optional<JsonReader> optional_object(std::string_view key);

  bool has(std::string_view key) const;  // present, though perhaps null

  void ignore(std::span<const std::string_view> keys);
  void allow_only(std::span<const FixedValue> values);

  // Call last: throws for the first key that is not known.
  void refuse_the_rest() const;

  [[noreturn]] void fail_missing(std::string_view key) const;
  [[noreturn]] void fail_unsupported(std::string_view key, const nlohmann::json& value) const;
  [[noreturn]] void fail_value(std::string_view key, const nlohmann::json& value, std::string_view wanted) const;

 private:
  const nlohmann::json& object_;
  std::string file_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace reprofuse

template <>
struct fmt::formatter<reprofuse::Shown> : fmt::formatter<std::string> {
  template <typename FormatContext>
  auto format(const reprofuse::Shown& shown, FormatContext& context) const {
    return fmt::formatter<std::string>::format(shown.text(), context);
  }
};
