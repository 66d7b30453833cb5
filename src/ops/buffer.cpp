#include "ops/buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/math.hpp"
#include "kernels/cuda/runtime/backend.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {

Buffer::Buffer(const Context& context, std::size_t bytes) : bytes_(bytes), device_(context.device()) {
  if (bytes == 0) return;
  if (device_ == DeviceKind::kCuda) {
    data_ = cuda::allocate(context.state().ordinal, bytes);
    return;
  }
  constexpr std::size_t kAlignment = 256;
  data_ = std::aligned_alloc(kAlignment, round_up(bytes, kAlignment));
  if (data_ == nullptr) throw std::bad_alloc();
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_ == DeviceKind::kCuda)
    cuda::release(data_);
  else
    std::free(data_);
}

void copy_to_device(const Context& context, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (context.device() == DeviceKind::kCuda)
    cuda::copy_to_device(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

void copy_to_host(const Context& context, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (context.device() == DeviceKind::kCuda)
    cuda::copy_to_host(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

}  // namespace reprofuse
