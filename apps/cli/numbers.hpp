// Whole decimal numbers as options: nothing rounds, wraps, saturates or turns octal.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>

namespace reprofuse::cli {

template <typename Int>
CLI::Validator whole_number(Int least, Int most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    Int value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_plain = text == "0" || (!text.empty() && text[0] != '0' && text.rfind("-0", 0) != 0);
    if (error == std::errc() && stop == end && is_plain && value >= least && value <= most) return {};
    return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
  };
  return CLI::Validator(check, "");
}

}  // namespace reprofuse::cli
