// JSON of files and of strangers: strict parsing, values in messages, and values that are dropped without memory.
#pragma once

#include <cstddef>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

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

// A key of an object that is read strictly, and the only value of it that is implemented; null says the same.
struct FixedValue {
  std::string_view key;
  std::string_view json;
};

// The parser's events for who builds values of them: each as a value that stands by itself, the beginning of a list or
// an object, or its end. Whoever does not want to go on throws.
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

}  // namespace reprofuse
