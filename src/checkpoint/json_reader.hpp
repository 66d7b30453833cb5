// JSON read strictly: each key is either asked for or refused, and every refusal names file, key and value.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace reprofuse::checkpoint {

using Json = nlohmann::json;

// The text of a file, refused when it is longer than `max_bytes`: these files are small, and a hostile one may not be.
std::string read_text_file(const std::string& path, const std::string& file, std::size_t max_bytes);

// The object that `text` holds. Throws for malformed JSON, a key given twice, and nesting that no such file has.
Json parse_json_object(std::string_view text, const std::string& file);

using reprofuse::shown;

// A name that a file holds as shown() shows it, worked out only when a message is made: fmt::format("{}", Shown{name}).
struct Shown {
  std::string_view name;
  std::string text() const;
};

class JsonReader {
 public:
  // `path` stands before each key in messages: "rope_scaling." The object must outlive the reader.
  JsonReader(const Json& object, std::string file, std::string path = "");

  const std::string& file() const { return file_; }

  // The value, or none when the key is absent or null. From here on the key counts as understood.
  const Json* find(std::string_view key);

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
  [[noreturn]] void fail_unsupported(std::string_view key, const Json& value) const;
  [[noreturn]] void fail_value(std::string_view key, const Json& value, std::string_view wanted) const;

 private:
  const Json& object_;
  std::string file_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace reprofuse::checkpoint

template <>
struct fmt::formatter<reprofuse::checkpoint::Shown> : fmt::formatter<std::string> {
  template <typename FormatContext>
  auto format(const reprofuse::checkpoint::Shown& shown, FormatContext& context) const {
    return fmt::formatter<std::string>::format(shown.text(), context);
  }
};
