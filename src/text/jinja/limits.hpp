// What a template may cost. A chat of a million tokens stays far below; a hostile template stops with an error in
// seconds, and in bounded memory.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

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

}  // namespace reprofuse::text::jinja
