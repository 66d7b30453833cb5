#include "capi/boundary.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "reprofuse/error.hpp"

namespace reprofuse::capi {
namespace {

// A fixed buffer, because a message must survive even when there is no memory left to hold it.
constexpr std::size_t kMessageBytes = 1024;
thread_local char message[kMessageBytes] = "";

reprofuse_status keep(reprofuse_status status, const char* text) noexcept {
  std::strncpy(message, text, kMessageBytes - 1);
  return status;
}

static_assert(static_cast<int>(ErrorCode::kInvalidArgument) == REPROFUSE_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::kUnsupported) == REPROFUSE_UNSUPPORTED);
static_assert(static_cast<int>(ErrorCode::kNonFinite) == REPROFUSE_NON_FINITE);
static_assert(static_cast<int>(ErrorCode::kDevice) == REPROFUSE_DEVICE);
static_assert(static_cast<int>(ErrorCode::kInternal) == REPROFUSE_INTERNAL);
static_assert(static_cast<int>(ErrorCode::kBusy) == REPROFUSE_BUSY);

}  // namespace

reprofuse_status status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(static_cast<reprofuse_status>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return keep(REPROFUSE_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return keep(REPROFUSE_INTERNAL, error.what());
  } catch (...) {
    return keep(REPROFUSE_INTERNAL, "an exception of unknown type");
  }
}

const char* last_error() noexcept {
  return message;
}

namespace {

void* copy(const void* from, std::size_t bytes, std::size_t room) {
  void* memory = std::malloc(room);
  if (memory == nullptr) throw std::bad_alloc();
  if (bytes > 0) std::memcpy(memory, from, bytes);
  return memory;
}

}  // namespace

void give_text(std::string_view text, char** to, std::size_t* bytes) {
  require(to != nullptr && bytes != nullptr, "a pointer that receives the text is null");
  char* copied = static_cast<char*>(copy(text.data(), text.size(), text.size() + 1));
  copied[text.size()] = '\0';
  *to = copied;
  *bytes = text.size();
}

void give_tokens(std::span<const std::int32_t> tokens, std::int32_t** to, std::size_t* count) {
  require(to != nullptr && count != nullptr, "a pointer that receives the tokens is null");
  *to = static_cast<std::int32_t*>(copy(tokens.data(), tokens.size_bytes(), tokens.size_bytes() + 1));
  *count = tokens.size();
}

}  // namespace reprofuse::capi
