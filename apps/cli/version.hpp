// The version CMake's project() declares.
#pragma once

namespace reprofuse::cli {

inline constexpr const char* kVersion = REPROFUSE_VERSION;

}  // namespace reprofuse::cli
