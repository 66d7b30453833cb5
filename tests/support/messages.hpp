// Messages of errors, and parts of them.
#pragma once

#include <string>

#include "reprofuse/error.hpp"

namespace reprofuse {

// The message of the Error that `call` throws; "" when it throws none.
template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace reprofuse
