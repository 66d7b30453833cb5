#include "ops/device.hpp"

#include <charconv>

#include "base/check.hpp"

namespace reprofuse {

DeviceName parse_device(std::string_view text) {
  const std::size_t colon = text.find(':');
  for (const kernels::BackendRow& row : kernels::backends()) {
    if (row.name != text.substr(0, colon)) continue;
    if (colon == std::string_view::npos) return {&row};
    const std::string_view digits = text.substr(colon + 1);
    int ordinal = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size() && ordinal >= 0;
    if (row.counted && is_number) return {&row, ordinal};
  }
  fail(ErrorCode::kUnsupported, "device '{}' does not exist; there are {}", text, device_names());
}

std::string device_names() {
  std::string names;
  for (const kernels::BackendRow& row : kernels::backends()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
    if (row.counted) names += fmt::format(", {}:N", row.name);
  }
  return names;
}

}  // namespace reprofuse
