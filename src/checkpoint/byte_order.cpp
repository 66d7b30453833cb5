#include "checkpoint/byte_order.hpp"

#include <algorithm>

namespace reprofuse::checkpoint {

void swap_element_bytes(std::span<std::byte> elements, DType dtype) {
  const std::size_t bytes = dtype_bytes(dtype);
  for (std::size_t i = 0; i + bytes <= elements.size(); i += bytes)
    std::reverse(elements.begin() + static_cast<std::ptrdiff_t>(i),
                 elements.begin() + static_cast<std::ptrdiff_t>(i + bytes));
}

}  // namespace reprofuse::checkpoint
