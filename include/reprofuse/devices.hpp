// The devices of a machine.
#pragma once

#include <string>
#include <vector>

#include "reprofuse/export.hpp"

namespace reprofuse {

// Those that this build can compute on, as Context::open() takes them: "cpu", "cuda:0", "cuda:1".
REPROFUSE_API std::vector<std::string> available_devices();

}  // namespace reprofuse
