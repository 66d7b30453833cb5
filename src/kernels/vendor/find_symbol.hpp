// A function of a library that was opened at run time.
#pragma once

#include <dlfcn.h>

#include <string_view>

#include "base/check.hpp"

namespace reprofuse::vendor {

template <typename Function>
Function* find_symbol(std::string_view library_name, void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) fail(ErrorCode::kUnsupported, "{} has no {}", library_name, name);
  return reinterpret_cast<Function*>(symbol);
}

}  // namespace reprofuse::vendor
