// What the readers of a checkpoint's JSON files have in common: strict parsing, and values in messages.
#pragma once

#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace reprofuse {

// The value that `text` holds. A key given twice is an error, since one of its values would be passed over, and so is
// nesting deeper than max_depth. Malformed text throws nlohmann::json::exception: each reader has words of its own.
nlohmann::json parse_json(std::string_view text, const std::string& file,
                          int max_depth = std::numeric_limits<int>::max());

// The value as an error message shows it: strings in single quotes, long values cut.
std::string shown(const nlohmann::json& value);

}  // namespace reprofuse
