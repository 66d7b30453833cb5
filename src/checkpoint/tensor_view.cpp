#include "checkpoint/tensor_view.hpp"

#include "checkpoint/byte_order.hpp"

namespace reprofuse::checkpoint {

HostTensor::HostTensor(const TensorView& view) : bytes_(view.bytes) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes_.data()) % dtype_bytes(view.dtype) == 0;
  if (aligned && kFileOrderIsHostOrder) return;
  copy_.assign(bytes_.begin(), bytes_.end());
  convert_byte_order(copy_, view.dtype);
}

}  // namespace reprofuse::checkpoint
