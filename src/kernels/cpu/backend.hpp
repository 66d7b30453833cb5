// The CPU as a backend.
#pragma once

#include <memory>

#include "kernels/backends.hpp"

namespace reprofuse::cpu {

std::shared_ptr<const kernels::Backend> open_backend(const kernels::BackendOptions& options);

}  // namespace reprofuse::cpu
