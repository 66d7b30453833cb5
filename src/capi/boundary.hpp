// What stands between the C ABI and C++: exceptions become a status and a message of the calling thread.
#pragma once

#include <utility>

#include "reprofuse/reprofuse.h"

namespace reprofuse::capi {

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

}  // namespace reprofuse::capi
