// Where a statement is not what its receipt is written as.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace reprofuse::receipt {

// The first place, and both values, in words. Linear in both but for looking up keys; the library's own diff looks
// through its list of changes again for each of them.
std::string difference_between(const nlohmann::json& said, const nlohmann::json& written);

}  // namespace reprofuse::receipt
