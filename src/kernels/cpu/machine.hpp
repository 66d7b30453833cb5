// What this machine can run, and how much memory it has to give.
#pragma once

#include <cstdint>

#include "reprofuse/context.hpp"

namespace reprofuse::cpu {

// Whether this build has kernels for the instruction set and this machine can run them.
bool is_supported(Isa isa);

// What the system calls available, within the limit of the process's control group.
std::int64_t available_memory();

}  // namespace reprofuse::cpu
