// The page of a report: the files of web/report/ and the library that draws, carried in the binary
// (cmake/EmbedAssets.cmake).
#pragma once

#include <optional>
#include <string_view>

#include "base/asset.hpp"

namespace reprofuse::study {

// "/index.html", and the files that it names. None: there is no such file.
std::optional<Asset> report_asset(std::string_view path);

}  // namespace reprofuse::study
