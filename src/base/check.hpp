// Failing with a reason. require() is for what a caller can cause, invariant() for what only a bug can.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "reprofuse/error.hpp"

namespace reprofuse {

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    fail(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

inline void invariant(bool condition, const char* what) {
  if (!condition) [[unlikely]]
    fail(ErrorCode::kInternal, "internal error: {}", what);
}

// The product of sizes that are not negative, or nothing when it is beyond any memory.
template <typename... Sizes>
std::optional<std::int64_t> checked_product(Sizes... sizes) {
  std::int64_t product = 1;
  const bool overflows = (__builtin_mul_overflow(product, static_cast<std::int64_t>(sizes), &product) || ...);
  return overflows ? std::nullopt : std::optional(product);
}

}  // namespace reprofuse
