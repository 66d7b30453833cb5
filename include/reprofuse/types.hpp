// Views over caller-owned memory. Strides count elements, not bytes; rows may be padded.
// On a CUDA context the pointers are device pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "reprofuse/export.hpp"

namespace reprofuse {

enum class DType : std::uint8_t { kF32 = 0, kBF16 = 1, kF16 = 2 };

REPROFUSE_API std::string_view dtype_name(DType dtype);  // "f32", "bf16", "f16"
REPROFUSE_API std::size_t dtype_bytes(DType dtype);

struct ConstMatrix {
  const float* data = nullptr;  // [rows, cols]
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements between the starts of two rows, >= cols
};

struct Matrix {
  float* data = nullptr;  // [rows, cols]
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

struct WeightView {
  const void* data = nullptr;  // [n, k] of dtype; aligned to its element, nothing more
  DType dtype = DType::kBF16;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t stride = 0;
};

// Called with the bytes done so far and in all; by one thread at a time, though not always the same one. What it throws
// comes out of the call that it was given to.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

}  // namespace reprofuse
