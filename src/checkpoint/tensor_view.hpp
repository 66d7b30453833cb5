// A tensor in a checkpoint file, and the same tensor as kernels want it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprofuse/types.hpp"

namespace reprofuse::checkpoint {

// Files hold little-endian elements; this is the only place that knows what the machine holds.
static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);
inline constexpr bool kFileOrderIsHostOrder = std::endian::native == std::endian::little;

// Reverses the bytes of each element in place.
inline void swap_element_bytes(std::span<std::byte> elements, DType dtype) {
  const std::size_t bytes = dtype_bytes(dtype);
  for (std::size_t i = 0; i + bytes <= elements.size(); i += bytes)
    std::reverse(elements.begin() + static_cast<std::ptrdiff_t>(i),
                 elements.begin() + static_cast<std::ptrdiff_t>(i + bytes));
}

// Between file order and host order, either way, in place. Nothing to do on a little-endian machine.
inline void convert_byte_order(std::span<std::byte> elements, DType dtype) {
  if constexpr (!kFileOrderIsHostOrder) swap_element_bytes(elements, dtype);
}

// Valid as long as the file is mapped. Only touching `bytes` reads the file.
struct TensorView {
  std::string name;
  std::string file;                  // its name, for messages
  std::span<const std::byte> bytes;  // as in the file: little-endian elements, perhaps unaligned
  DType dtype;
  std::vector<std::int64_t> shape;

  std::int64_t elements() const { return static_cast<std::int64_t>(bytes.size() / dtype_bytes(dtype)); }
};

// Elements in host order, aligned to themselves: the mapping itself where it is both already, else a copy.
class HostTensor {
 public:
  explicit HostTensor(const TensorView& view) : bytes_(view.bytes) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes_.data()) % dtype_bytes(view.dtype) == 0;
    if (aligned && kFileOrderIsHostOrder) return;
    copy_.assign(bytes_.begin(), bytes_.end());
    convert_byte_order(copy_, view.dtype);
  }

  const void* data() const { return copy_.empty() ? bytes_.data() : copy_.data(); }
  bool is_copy() const { return !copy_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  std::vector<std::byte> copy_;
};

}  // namespace reprofuse::checkpoint
