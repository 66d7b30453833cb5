// Shared by the checkpoint tests: messages of errors, edited JSON, and temporary folders.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/temporary_folder.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse::checkpoint {

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

// `json` with the keys of `changes` set; a key whose value is "<absent>" is removed.
inline std::string edited(const std::string& json, const std::string& changes) {
  auto root = nlohmann::json::parse(json);
  const auto edits = nlohmann::json::parse(changes);
  for (const auto& [key, value] : edits.items()) {
    if (value == "<absent>") {
      root.erase(key);
    } else {
      root[key] = value;
    }
  }
  return root.dump();
}

}  // namespace reprofuse::checkpoint
