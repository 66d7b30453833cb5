#include "capi/boundary.hpp"

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

}  // namespace reprofuse::capi
