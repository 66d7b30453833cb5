// The page that `reprofuse serve` shows: the files of web/, carried in the binary (cmake/EmbedAssets.cmake).
#pragma once

#include <optional>
#include <string_view>

#include "base/asset.hpp"

namespace reprofuse::server {

// `path` as a browser asks for it: "/" is index.html, "/style.css" a file beside it. None: there is no such file.
std::optional<Asset> web_asset(std::string_view path);

}  // namespace reprofuse::server
