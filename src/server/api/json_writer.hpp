// JSON as text, written in the order in which it stands there. No tree of values is built, so a reply takes the memory
// of its text and nothing has to be taken apart when memory runs out.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace reprofuse::server {

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
