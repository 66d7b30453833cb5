// Files hold little-endian elements; this is the only place that knows what the machine holds.
#pragma once

#include <bit>
#include <cstddef>
#include <span>

#include "reprofuse/types.hpp"

namespace reprofuse::checkpoint {

static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);
inline constexpr bool kFileOrderIsHostOrder = std::endian::native == std::endian::little;

// Reverses the bytes of each element in place.
void swap_element_bytes(std::span<std::byte> elements, DType dtype);

// Between file order and host order, either way, in place. Nothing to do on a little-endian machine.
inline void convert_byte_order(std::span<std::byte> elements, DType dtype) {
  if constexpr (!kFileOrderIsHostOrder) swap_element_bytes(elements, dtype);
}

}  // namespace reprofuse::checkpoint
