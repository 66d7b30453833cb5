#include "kernels/backends.hpp"

#include "kernels/cpu/backend.hpp"
#include "kernels/cuda/backend.hpp"

namespace reprofuse::kernels {
namespace {

constexpr BackendRow kBackends[] = {
    {.name = "cpu",
     .description = "AVX-512, AVX2, NEON or scalar code on threads of this process",
     .counted = false,
     .threads = true,
     .open = cpu::open_backend},
    {.name = "cuda",
     .description = "an NVIDIA GPU of compute capability 8.0 or higher",
     .counted = true,
     .threads = false,
     .open = cuda::open_backend},
};

}  // namespace

std::span<const BackendRow> backends() {
  return kBackends;
}

}  // namespace reprofuse::kernels
