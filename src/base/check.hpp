// Failing with a reason. require() is for what a caller can cause, invariant() for what only a bug can.
#pragma once

#include <fmt/format.h>

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

}  // namespace reprofuse
