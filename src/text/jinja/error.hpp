// A failure inside a template. The place is filled in on the way out: by the parser, or by the innermost expression.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace reprofuse::text::jinja {

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

}  // namespace reprofuse::text::jinja
