// How much memory there is to take.
#pragma once

#include <cstdint>

namespace reprofuse::cpu {

// What the system calls available, within the limit of the process's control group.
std::int64_t available_memory();

}  // namespace reprofuse::cpu
