// What options may hold. A value that makes no sense is told in one way: '--option: 'value' is not ...'.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprofuse::cli {

inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 20;  // that an option may ask for

// Whole decimal numbers: nothing rounds, wraps, saturates or turns octal.
template <typename Int>
CLI::Validator whole_number(Int min, Int max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    Int value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_plain = text == "0" || (!text.empty() && text[0] != '0' && text.rfind("-0", 0) != 0);
    if (error == std::errc() && stop == end && is_plain && value >= min && value <= max) return {};
    if (max == std::numeric_limits<Int>::max())
      return fmt::format("'{}' is not a whole number of {} bits, at least {}", text, 8 * sizeof(Int), min);
    return fmt::format("'{}' is not a whole number from {} to {}", text, min, max);
  };
  return CLI::Validator(check, "");
}

inline CLI::Validator real_number(double min, double max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= min && value <= max) return {};
    if (max != FLT_MAX) return fmt::format("'{}' is not a number from {} to {}", text, min, max);
    return fmt::format("'{}' is not a number of at least {} that FP32 can hold", text, min);
  };
  return CLI::Validator(check, "");
}

template <typename Text>
CLI::Validator one_of(const std::vector<Text>& names) {
  const std::vector<std::string> known(names.begin(), names.end());
  const auto check = [known](const std::string& text) -> std::string {
    if (std::find(known.begin(), known.end(), text) != known.end()) return {};
    return fmt::format("'{}' is not one of {}", text, fmt::join(known, ", "));
  };
  return CLI::Validator(check, fmt::format("{{{}}}", fmt::join(known, ",")));
}

inline CLI::Validator one_of(std::initializer_list<std::string_view> names) {
  return one_of(std::vector<std::string_view>(names));
}

// A binary32 setting, as the server reads one: the nearest binary64 number, rounded to binary32. CLI11's own way is by
// long double, whose width differs between machines.
inline CLI::Option* add_real_option(CLI::App& command, const std::string& name, std::optional<float>& value,
                                    const std::string& about) {
  const auto read = [&value](const std::string& text) {
    double nearest = 0;
    std::from_chars(text.data(), text.data() + text.size(), nearest);
    value = static_cast<float>(nearest);
  };
  return command.add_option_function<std::string>(name, read, about);
}

// --seed, as the server reads one: any 64 bits. A negative seed is the unsigned one with the same bits.
inline void add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& about) {
  const auto read = [&seed](const std::string& text) {
    const bool is_negative = text.rfind('-', 0) == 0;
    const auto is_right =
        is_negative ? whole_number<std::int64_t>(INT64_MIN, -1) : whole_number<std::uint64_t>(0, UINT64_MAX);
    if (!is_right(std::string(text)).empty())
      throw CLI::ValidationError("--seed", fmt::format("'{}' is not a whole number of 64 bits", text));
    seed = is_negative ? static_cast<std::uint64_t>(std::stoll(text)) : std::stoull(text);
  };
  command.add_option_function<std::string>("--seed", read, about)->type_name("S")->default_str(std::to_string(seed));
}

inline void add_special_tokens_option(CLI::App& command, std::string& mode) {
  command
      .add_option("--special-tokens-in-content", mode,
                  "What the spelling of a special token in a message or a prompt becomes: the token, or plain text, "
                  "which forges no turn of a chat (default: as-tokens)")
      ->check(one_of({"as-tokens", "plain"}))
      ->type_name("MODE");
}

}  // namespace reprofuse::cli
