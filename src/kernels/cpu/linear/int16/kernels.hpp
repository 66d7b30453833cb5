// The kernels of the linear layer of contract int16-1 for one instruction set, as a table. Which one runs is decided by
// the caller alone.
//
// A strip of K is a block of terms, which share a unit. Its operands are snapped into whatever form the instruction set
// multiplies exactly, and its sums fit 32 bits; strips are added in 64. Sums of integers have no order, so every table
// gives the bits of reference::linear_int16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/linear.hpp"
#include "numerics/int16.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

// Limits on what a table may say of itself.
inline constexpr int kMaxInt16Rows = 12;
inline constexpr std::size_t kMaxInt16TermBytes = 64;  // a packed term of one panel

// A strip of one row, to be snapped into a block of rows.
struct Int16Activations {
  const float* x;
  int terms;      // 1 to int16::kTermBlock
  float inverse;  // of the strip's unit
  void* packed;   // the block's strip
  int rows;       // of the block
  int row;        // this one, in the block
};

// A strip of one panel: Panels' words.
struct Int16Weights {
  const std::uint32_t* words;
  const float* inverses;  // of the unit of each column; aligned to 64 bytes
  int terms;
};

// What a tile knows of a strip of one of its rows.
struct Int16Strip {
  std::int32_t start;  // what its sums start from: what snap_activations returned
  std::int32_t shift;  // its unit, above the least one of the row
};

// A block of rows times a strip of one panel.
struct Int16Tile {
  const void* x;             // packed
  const void* weights;       // packed
  int rows;                  // 1 to LinearInt16Kernels::rows
  int terms;                 // 1 to int16::kTermBlock
  const Int16Strip* strips;  // [rows]
  std::int64_t* totals;      // [rows][kPanel], added to; aligned to 64 bytes
};

// The only block of rows, times a strip of one panel that is snapped in registers: storing it would cost more than it
// saves.
struct Int16FewRows {
  Int16Weights weights;
  const void* x;             // packed
  int rows;                  // 1 to LinearInt16Kernels::few_rows
  const Int16Strip* strips;  // as above
  std::int64_t* totals;
};

// The sums of one row and one panel, to be rounded.
struct Int16Sums {
  const std::int64_t* totals;        // [kPanel]; aligned to 64 bytes
  const std::int32_t* weight_units;  // [kPanel]; aligned to 64 bytes
  int row_unit;                      // of the row's largest block
  float* results;                    // [kPanel]; aligned to 64 bytes
};

struct LinearInt16Kernels {
  std::string_view target;       // compiled in: what really runs
  int rows;                      // the most in a tile
  int few_rows;                  // so many take weights in registers; at most as many as in a tile
  std::size_t activation_bytes;  // a packed term of one row, where the terms are rounded up to a multiple of 4
  std::size_t weight_bytes;      // a packed term of one panel, likewise

  std::uint32_t (*largest_bits)(const float* x, std::int64_t k);    // of the magnitudes
  std::int32_t (*snap_activations)(const Int16Activations& strip);  // returns what the strip's sums start from
  void (*multiply)(const Int16Tile& tile);
  void (*round)(const Int16Sums& sums);  // int16::result of each

  // For each type of weight: snap and pack a strip, or snap it in registers and multiply it with few rows.
  struct Weights {
    void (*snap)(const Int16Weights& strip, void* packed);
    void (*multiply_few)(const Int16FewRows& few);
  };
  Weights bf16, f16, f32;
  const Weights& weights(DType dtype) const { return dtype == DType::kBF16 ? bf16 : dtype == DType::kF16 ? f16 : f32; }
};

const LinearInt16Kernels& linear_int16_scalar();
const LinearInt16Kernels* linear_int16_simd(Isa isa);  // 16-bit products; null: not in this build
const LinearInt16Kernels* linear_int16_vnni();         // AVX-512 with byte products; null: not in this build

// The quickest that the machine can run; the machine must support the instruction set.
const LinearInt16Kernels& best_linear_int16(Isa isa);

std::unique_ptr<kernels::PreparedLinear> prepare_linear_int16(const LinearInt16Kernels& kernels,
                                                              const kernels::CpuTarget& target,
                                                              std::span<const WeightView> weights);

// The target's instruction set must be supported. Refuses rows of more terms than an exact sum can hold.
std::unique_ptr<kernels::PreparedLinear> prepare_linear_int16(const kernels::CpuTarget& target,
                                                              std::span<const WeightView> weights);

}  // namespace reprofuse::cpu
