// What a template computes with: Python's values as Jinja2 sees them, immutable except for namespaces. Before them, how
// it fails and what it may cost.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace reprofuse::text::jinja {

// A failure inside a template. The place is filled in on the way out: by the parser, or by the innermost expression.
class TemplateError : public std::exception {
 public:
  explicit TemplateError(std::string message, int line = 0) : message_(std::move(message)), line_(line) {}

  const char* what() const noexcept override { return message_.c_str(); }
  int line() const { return line_; }  // 1 for the first; 0 when not known yet
  void set_line(int line) { line_ = line; }

 private:
  std::string message_;
  int line_;
};

template <typename... Args>
[[noreturn]] void template_error(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void template_error_at(int line, fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(fmt::format(format, std::forward<Args>(args)...), line);
}

// A chat of a million tokens stays far below; a hostile template stops with an error in seconds, and in bounded memory.
struct Limits {
  std::size_t template_bytes = 1 << 20;
  std::uint64_t steps = 20'000'000;         // expressions, statements and loop rounds evaluated, values compared
  std::uint64_t bytes = 256ULL << 20;       // of all strings and lists made, the output among them
  int evaluation_depth = 400;               // expressions, statements and macro calls inside one another
  static constexpr int kSyntaxDepth = 150;  // of the syntax tree
  static constexpr int kValueDepth = 100;   // lists and mappings inside one another
};

// Counts down while one rendering runs.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void spend_steps(std::uint64_t steps) {
    if (steps > limits_.steps - steps_) template_error("gave up after {} steps", limits_.steps);
    steps_ += steps;
  }
  // Called before the bytes are allocated.
  void spend_bytes(std::uint64_t bytes) {
    if (bytes > limits_.bytes - bytes_) template_error("gave up after {} bytes of text and lists", limits_.bytes);
    bytes_ += bytes;
  }

  // One level of evaluation, for its lifetime.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.depth_ >= budget_.limits_.evaluation_depth) {
        template_error("nested more than {} levels deep", budget_.limits_.evaluation_depth);
      }
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  int depth_ = 0;
};

class Value;
struct Macro;     // a syntax tree's, ast.hpp
struct Function;  // a built-in one, evaluator.hpp

using String = std::shared_ptr<const std::string>;  // always valid UTF-8

struct Undefined {
  String name;  // as written in the template, for the error when it is used
};
struct None {};

// Python has several kinds of sequence, and templates can tell them apart.
enum class SequenceKind {
  kList,
  kTuple,
  kView,      // dict.items(), range(): can be walked and counted, but neither indexed nor written as JSON
  kIterator,  // from map, selectattr and the like: can be walked once, and has no length and no truth value
};

struct Sequence {
  std::vector<Value> items;
  SequenceKind kind = SequenceKind::kList;
  int height = 1;               // containers inside one another, itself included
  mutable bool walked = false;  // of an iterator, which can be walked once
};

using MappingItems = std::vector<std::pair<std::string, Value>>;

struct Mapping {
  explicit Mapping(MappingItems given);  // of two equal keys, the first gives the place and the second the value
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const Value* find(std::string_view key) const;

  MappingItems items;
  int height = 1;

 private:
  std::map<std::string_view, std::size_t> places_;  // views of the keys in `items`
};

// Owned by the rendering, not by the values that refer to it: a namespace may contain itself.
struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

struct Loop {
  std::shared_ptr<const Sequence> items;
  std::size_t index = 0;
};

struct Callable {
  const Macro* macro = nullptr;  // one of the two
  const Function* function = nullptr;
};

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, std::int64_t, double, String, std::shared_ptr<const Sequence>,
                               std::shared_ptr<const Mapping>, Namespace*, std::shared_ptr<const Loop>, Callable>;

  Value() : storage_(None{}) {}
  Value(bool value) : storage_(value) {}
  Value(std::int64_t value) : storage_(value) {}
  Value(double value) : storage_(value) {}
  Value(std::string value) : storage_(std::make_shared<const std::string>(std::move(value))) {}
  Value(String value) : storage_(std::move(value)) {}
  Value(Namespace* value) : storage_(value) {}
  Value(std::shared_ptr<const Loop> value) : storage_(std::move(value)) {}
  Value(Callable value) : storage_(value) {}
  Value(const char*) = delete;  // would be a bool
  static Value undefined(std::string name);
  // These two measure the height of what they are given, and refuse what is too deep.
  static Value sequence(std::vector<Value> items, SequenceKind kind = SequenceKind::kList);
  static Value mapping(MappingItems items);

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&storage_);
  }
  bool is_undefined() const { return std::holds_alternative<Undefined>(storage_); }
  bool is_none() const { return std::holds_alternative<None>(storage_); }
  const std::string* string() const;
  const Sequence* sequence() const;
  const Mapping* mapping() const;
  std::shared_ptr<const Sequence> shared_sequence() const;

  bool truthy() const;
  std::string_view type_name() const;  // for messages

 private:
  Storage storage_;
};

// Values that are not there, or of the wrong type, end the rendering: `user` says what wanted them.
void require_defined(const Value& value, std::string_view user);
const std::string& require_string(const Value& value, std::string_view user);
std::int64_t require_integer(const Value& value, std::string_view user);

// The items a `for` would see: of a list, the keys of a mapping, the characters of a string. Uses up an iterator.
std::vector<Value> walk(const Value& value, std::string_view user, Budget& budget);

Value from_json(const nlohmann::ordered_json& json, std::string_view place);

// Values as text: what {{ }} prints (Python's str), and what the filter tojson writes (Python's json.dumps).
// str(): a string is itself, undefined is nothing, True, None, 1.0, ['a', 1], {'key': 'value'}.
std::string to_text(const Value& value, Budget& budget);

// repr() of a float: the shortest digits that read back as the same number.
std::string float_text(double value);

struct JsonStyle {
  std::optional<std::int64_t> indent;  // none: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii = false;  // write \uXXXX for everything else
  bool sort_keys = false;
};

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace reprofuse::text::jinja
