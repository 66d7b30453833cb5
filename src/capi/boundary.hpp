// What stands between the C ABI and C++: exceptions become a status and a message of the calling thread, structs are
// checked before they are read, and what a caller gets is memory of malloc().
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "reprofuse/reprofuse.h"

namespace reprofuse::capi {

inline constexpr std::uint32_t kStructVersion = 1;  // of every struct that has one

// Call inside a catch block: tells what was caught as a status and keeps its message for last_error().
reprofuse_status status_of_current_exception() noexcept;

const char* last_error() noexcept;

// Runs body; nothing it throws gets out.
template <typename Body>
reprofuse_status guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return REPROFUSE_OK;
  } catch (...) {
    return status_of_current_exception();
  }
}

template <typename T>
T& unwrap(T* handle, const char* what) {
  require(handle != nullptr, "the {} is null", what);
  return *handle;
}

// What a call returns through `made`, which is null unless it succeeds.
template <typename T, typename Make>
reprofuse_status create(T** made, const char* what, const Make& make) noexcept {
  return guarded([&] {
    require(made != nullptr, "the pointer that receives the {} is null", what);
    *made = nullptr;
    *made = make();
  });
}

// A struct that the caller made: of the size and version that this library knows.
template <typename T>
const T& checked(const T* object, const char* what) {
  require(object != nullptr, "the {} is null", what);
  require(object->struct_size == sizeof(T) && object->struct_version == kStructVersion,
          "a {} of size {} and version {}; this library has size {} and version {}. Call its init function first", what,
          object->struct_size, object->struct_version, sizeof(T), kStructVersion);
  return *object;
}

// A struct that is about to be filled, zeroed but for its size and version.
template <typename T>
T& blank(T* object, std::size_t size, const char* what) {
  require(object != nullptr, "the {} is null", what);
  require(size == sizeof(T), "a {} of size {}; this library has size {}", what, size, sizeof(T));
  *object = T{};
  object->struct_size = sizeof(T);
  object->struct_version = kStructVersion;
  return *object;
}

template <typename T>
std::span<const T> list(const T* items, std::size_t count, const char* what) {
  require(items != nullptr || count == 0, "the array of {} is null", what);
  return {items, count};
}

inline std::string_view text_or(const char* text, std::string_view otherwise) {
  return text == nullptr ? otherwise : std::string_view(text);
}

inline std::string_view required_text(const char* text, const char* what) {
  require(text != nullptr, "the {} is null", what);
  return text;
}

// Copies for reprofuse_free(); a text has a zero after it.
void give_text(std::string_view text, char** to, std::size_t* bytes);
void give_tokens(std::span<const std::int32_t> tokens, std::int32_t** to, std::size_t* count);

}  // namespace reprofuse::capi
