// JSON as tests read and change it.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace reprofuse {

inline nlohmann::json read_json(const std::string& path) {
  return nlohmann::json::parse(std::ifstream(path));
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

}  // namespace reprofuse
