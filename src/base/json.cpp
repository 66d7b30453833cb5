#include "base/json.hpp"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/check.hpp"

namespace reprofuse {

nlohmann::json parse_json(std::string_view text, const std::string& file, int max_depth) {
  using Json = nlohmann::json;
  std::vector<std::unordered_set<std::string>> keys;  // of each object that is open
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    require(depth <= max_depth, "{}: nested deeper than {} levels", file, max_depth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get_ref<const std::string&>()).second)
      fail(ErrorCode::kInvalidArgument, "{}: key {} is given twice", file, shown(parsed));
    return true;
  };
  return Json::parse(text, check);
}

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMaxBytes = 80;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (value.is_string()) text.front() = text.back() = '\'';
  if (text.size() > kMaxBytes) text.replace(kMaxBytes, std::string::npos, "...");
  return text;
}

}  // namespace reprofuse
