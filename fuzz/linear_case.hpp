// A linear layer drawn from fuzz input: shapes, strides, alignment, weight type, fused outputs, biases, threads and the
// bit patterns of the operands, which are always finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprofuse/types.hpp"

namespace reprofuse::fuzz {

enum class ValueKind : std::uint8_t {
  kOrdinary,   // magnitudes near 1
  kSubnormal,  // exponent field 0
  kHuge,       // the top four binades, so that sums overflow
  kZero,       // of both signs
  kWide,       // any exponent whose products stay finite, subnormals included
  kMixed,      // each value of another kind
};

struct FuzzOutput {
  std::int64_t n;
  std::int64_t weight_stride;
  std::int64_t y_stride;
  std::vector<std::byte> weight;  // storage: offset, then [n, weight_stride] of the case's dtype
  std::vector<float> bias;        // [n], or empty
};

struct LinearCase {
  std::int64_t m;
  bool aligned;  // k and the strides of x and the weights are whole 16-byte words, and offset is 0
  std::int64_t k;
  std::int64_t x_stride;
  std::int64_t offset;  // elements before the first one of x, each weight and each y, to move them off alignment
  DType dtype;
  int threads;
  ValueKind x_kind;
  ValueKind weight_kind;
  std::uint64_t seed;
  std::vector<float> x;  // storage: offset, then [m, x_stride]
  std::vector<FuzzOutput> outputs;

  std::string description() const;  // every parameter, for the report of a difference
  std::size_t y_elements(const FuzzOutput& output) const {
    return static_cast<std::size_t>(offset + m * output.y_stride);
  }
};

LinearCase draw_case(std::span<const std::uint8_t> input);

}  // namespace reprofuse::fuzz
