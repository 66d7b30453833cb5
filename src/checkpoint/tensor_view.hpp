// A tensor in a checkpoint file, and the same tensor as kernels want it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprofuse/types.hpp"

namespace reprofuse::checkpoint {

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
  explicit HostTensor(const TensorView& view);

  const void* data() const { return copy_.empty() ? bytes_.data() : copy_.data(); }
  bool is_copy() const { return !copy_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  std::vector<std::byte> copy_;
};

}  // namespace reprofuse::checkpoint
