// A CUDA device as a backend. Implemented here, or in kernels/none/ when the build has no CUDA, where opening one
// throws an Error that says so.
#pragma once

#include <memory>

#include "kernels/backends.hpp"

namespace reprofuse::cuda {

std::shared_ptr<const kernels::Backend> open_backend(const kernels::BackendOptions& options);

}  // namespace reprofuse::cuda
