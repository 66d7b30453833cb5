#include "server/http/request_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string_view>

namespace reprofuse::server {

std::string request_id_of(const std::string& given) {
  constexpr std::size_t kLongest = 128;
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:";
  const bool is_plain = given.find_first_not_of(kAllowed) == std::string::npos;
  if (!given.empty() && given.size() <= kLongest && is_plain) return given;
  std::random_device random;  // of the system: ids of two servers differ as well
  const auto half = [&random] { return std::uint64_t{random()} << 32 | random(); };
  return fmt::format("{:016x}{:016x}", half(), half());
}

}  // namespace reprofuse::server
