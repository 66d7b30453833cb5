// A file that the binary carries (cmake/EmbedAssets.cmake).
#pragma once

#include <string_view>

namespace reprofuse {

struct Asset {
  std::string_view body;
  std::string_view content_type;
};

}  // namespace reprofuse
