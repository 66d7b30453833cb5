// Which vector instruction sets this build has kernels for and this machine can run.
#pragma once

#include <vector>

#include "reprofuse/context.hpp"

namespace reprofuse::cpu {

bool is_supported(Isa isa);

}  // namespace reprofuse::cpu
