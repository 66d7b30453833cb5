// What stands between the C ABI and C++: handles hold objects, exceptions become a status and a message of the calling
// thread, structs are checked before they are read, and what a caller gets is memory of malloc().
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "reprofuse/reprofuse.h"
#include "reprofuse/reprofuse.hpp"

// Handles that several files use: an object of the C++ API each, and the texts that are told by pointer.
struct reprofuse_context {
  reprofuse::Context context;
  std::string description, device, numerics, isa;
};

struct reprofuse_tokenizer {
  reprofuse::Tokenizer tokenizer;
};

struct reprofuse_chat_template {
  reprofuse::ChatTemplate chat_template;
};

struct reprofuse_checkpoint {
  reprofuse::Checkpoint checkpoint;
  std::vector<std::string> tensor_names;
};

struct reprofuse_model {
  reprofuse::Model model;
};

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

// Structs grow at their end alone, a field that is added means by zero what the library did without it, and padding
// stays padding. So a program and a library of different ages understand each other: c/base.h has the rule.
//
// Of the first version, whose size a struct that grows keeps here by a specialisation.
template <typename T>
inline constexpr std::size_t kFirstSize = sizeof(T);

inline constexpr std::size_t kMaxStructBytes = 4096;  // a larger size was never set

template <typename T>
void check_struct_size(std::size_t size, const char* what) {
  static_assert(std::is_trivially_copyable_v<T>);
  require(size >= kFirstSize<T> && size <= kMaxStructBytes && size % alignof(T) == 0,
          "a {} of size {}; the first version has size {}, this library {}. Call its init function with sizeof first",
          what, size, kFirstSize<T>, sizeof(T));
}

// A struct that the caller made, as this library's version of it: what it lacks is zero, what is beyond must be.
template <typename T>
T read_struct(const T* object, const char* what) {
  require(object != nullptr, "the {} is null", what);
  require(object->struct_version == kStructVersion,
          "a {} of version {}; this library has version {}. Call its init function first", what, object->struct_version,
          kStructVersion);
  const std::size_t size = object->struct_size;
  check_struct_size<T>(size, what);
  const auto* bytes = reinterpret_cast<const unsigned char*>(object);
  for (std::size_t i = sizeof(T); i < size; ++i)
    require(bytes[i] == 0,
            "byte {} of the {} is {}; this library knows {} of its {} bytes, and the others must be zero", i, what,
            bytes[i], sizeof(T), size);
  T made{};
  std::memcpy(&made, object, std::min(size, sizeof(T)));
  return made;
}

// Writes as much of `made` as the caller has room for, and zeroes beyond it.
template <typename T>
void write_struct(T* object, std::size_t size, const T& made) {
  auto* bytes = reinterpret_cast<unsigned char*>(object);
  std::memcpy(bytes, &made, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(bytes + sizeof(T), 0, size - sizeof(T));
}

// For an init function: `set` is given a zeroed T to put defaults in. struct_size is the caller's: what is beyond this
// library's is looked at when the struct is read.
template <typename T, typename Set>
void init_struct(T* object, std::size_t size, const char* what, const Set& set) {
  require(object != nullptr, "the {} is null", what);
  check_struct_size<T>(size, what);
  T made{};
  set(made);
  made.struct_size = static_cast<std::uint32_t>(size);
  made.struct_version = kStructVersion;
  write_struct(object, size, made);
}

// For results: the same, but struct_size says how much was filled. Where `set` throws, the caller's struct is as it
// was.
template <typename T, typename Set>
void fill_struct(T* object, std::size_t size, const char* what, const Set& set) {
  init_struct(object, size, what, set);
  object->struct_size = static_cast<std::uint32_t>(std::min(size, sizeof(T)));
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

// Where a call puts what it tells.
template <typename T>
T& receiver(T* to, const char* what) {
  require(to != nullptr, "the pointer that receives the {} is null", what);
  return *to;
}

// Copies for reprofuse_free(), never null; a text has a zero after it.
void give_text(std::string_view text, char** to, std::size_t* bytes);
void* give_copy(const void* from, std::size_t bytes);
void give_tokens(std::span<const std::int32_t> tokens, std::int32_t** to, std::size_t* count);

void give_table(const RotaryTable& table, float* cos, float* sin);  // to memory of the caller

ChatOptions chat_options(const reprofuse_chat_options* options);  // null: the defaults
SamplingParams sampling(const reprofuse_sampling& sampling);
reprofuse_sampling sampling(const SamplingParams& params);

}  // namespace reprofuse::capi
