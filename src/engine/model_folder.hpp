// The model that comes with ReproFuse.
#pragma once

#include <string>
#include <string_view>

namespace reprofuse::engine {

inline constexpr std::string_view kEmbeddedModel = "arithmetic-7m";

// Its folder: beside an installed tool, or in the source tree that the tool was built from, whatever the working
// directory. Throws kInvalidArgument, with the places, when it is in neither.
std::string embedded_model_folder();

}  // namespace reprofuse::engine
