// The kernels of contract exact-1 for one instruction set, as a table. Which one runs is decided by the caller alone.
//
// Operands are snapped a strip of K at a time, into whatever form the instruction set multiplies exactly. Sums of
// integers have no order, so strips, forms and tiles are free: every table gives the bits of reference::linear_exact1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/cpu/machine.hpp"
#include "kernels/linear.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

// Limits on what a table may say of itself.
inline constexpr int kMaxExactRows = 8;
inline constexpr int kMaxExactTerms = 1024;
inline constexpr std::size_t kMaxExactStripBytes = std::size_t{48} << 10;

// Some terms of one row, to be snapped into a block of rows.
struct ActivationStrip {
  const float* x;
  int terms;
  float scale;   // exact1::activation_scale
  void* packed;  // the block's strip
  int rows;      // of the block
  int row;       // this one, in the block
};

// A strip of one panel: Panels' words from an even term on.
struct WeightStrip {
  const std::uint32_t* words;
  const float* scales;  // exact1::weight_scale of each column; aligned to 64 bytes
  int terms;
};

// A block of rows times a strip of one panel.
struct ExactTile {
  const void* x;         // packed
  const void* weights;   // packed
  int rows;              // 2 to LinearExact1Kernels::rows; one row alone is always few
  int terms;             // 1 to LinearExact1Kernels::terms
  std::int64_t* totals;  // [rows][kPanel], added to; aligned to 64 bytes
};

// The only block of rows, times a strip of one panel.
struct FewRows {
  WeightStrip weights;
  const void* x;         // packed
  int rows;              // 1 to LinearExact1Kernels::few_rows
  std::int64_t* totals;  // as above
};

// The sums of one row and one panel, to be rounded.
struct ExactSums {
  const std::int64_t* totals;            // [kPanel]; aligned to 64 bytes
  const std::int32_t* weight_exponents;  // [kPanel]; aligned to 64 bytes
  int activation_exponent;
  float* results;  // [kPanel]; aligned to 64 bytes
};

struct LinearExact1Kernels {
  std::string_view target;       // compiled in: what really runs
  int rows;                      // the most in a tile, 3 to kMaxExactRows: an even split then leaves no row alone
  int few_rows;                  // so many take weights in registers; at most as many as in a tile
  int terms;                     // of a strip, a multiple of 4, at most kMaxExactTerms
  std::size_t activation_bytes;  // a packed term of one row, where the terms are rounded up to a multiple of 4
  std::size_t row_bytes;         // the same of a row alone, whose form may be another
  std::size_t weight_bytes;      // a packed term of one panel
  std::int64_t weight_bias;      // totals count each weight as W + weight_bias

  std::uint32_t (*largest_bits)(const float* x, std::int64_t k);  // of the magnitudes
  std::int64_t (*snap_activations)(const ActivationStrip&);       // returns the sum of the integers
  void (*multiply)(const ExactTile&);
  void (*round)(const ExactSums&);  // exact1::result of each

  // For each type of weight: snap and pack a strip; or snap it in registers and multiply it with few rows, for
  // whom storing it would cost more than it saves.
  struct Weights {
    void (*snap)(const WeightStrip&, void* packed);
    void (*multiply_few)(const FewRows&);
  };
  Weights bf16, f16, f32;
  const Weights& weights(DType dtype) const { return dtype == DType::kBF16 ? bf16 : dtype == DType::kF16 ? f16 : f32; }
};

const LinearExact1Kernels& linear_exact1_scalar();
const LinearExact1Kernels* linear_exact1_simd(Isa isa);  // FP64 and FP32, or 16-bit products; null: not in this build
const LinearExact1Kernels* linear_exact1_vnni();         // AVX-512 with byte products; null: not in this build

// All that the machine can run of an instruction set, the quickest last; the machine must support the instruction set.
std::vector<const LinearExact1Kernels*> linear_exact1_tables(Isa isa);

// Refuses rows of more terms than an exact sum can hold.
std::unique_ptr<kernels::PreparedLinear> prepare_linear_exact1(const LinearExact1Kernels& kernels,
                                                               const CpuDevice& device, std::string_view layer,
                                                               std::span<const WeightView> weights);

}  // namespace reprofuse::cpu
