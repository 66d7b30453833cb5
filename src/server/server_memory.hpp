// How much memory there is to take.
#pragma once

#include <cstdint>

#include "reprofuse/context.hpp"

namespace reprofuse::server {

// On the context's device. Of a CPU: what the system calls available, within the limit of the process's control group.
std::int64_t available_bytes(const Context& context);

}  // namespace reprofuse::server
