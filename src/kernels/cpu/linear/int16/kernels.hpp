// The kernels of the linear layer of contract int16-1 for one instruction set, as a table. Which one runs is decided by
// the caller alone.
//
// Weights become integers once, when a layer is built, in the 16 bits that they had: words of Panels, each of two
// terms, of W + 128. The upper byte of such a half is the high digit of W, the lower one its low digit + 128, so that
// every instruction set finds there what it multiplies. A strip of K is a block of terms, which share a unit. Its sums
// fit 32 bits; strips are added in 64. Sums of integers have no order, so every table gives the bits of
// reference::linear_int16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/cpu/machine.hpp"
#include "kernels/linear.hpp"
#include "numerics/int16.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

inline constexpr int kInt16Alignment = 4;  // terms of a panel: those past the last are W = 0, and so are those of x
inline constexpr int kInt16WeightOffset = 128;
inline constexpr int kMaxInt16Corrections = 16 + int16::kTermBlock * 4;  // words, of one strip of a panel

// A strip of one row, to be snapped into a block of rows.
struct Int16Activations {
  const float* x;
  int terms;      // 1 to int16::kTermBlock
  float inverse;  // of the strip's unit
  void* packed;   // the block's strip
  int rows;       // of the block
  int row;        // this one, in the block
};

// What a tile knows of a strip of one of its rows.
struct Int16Strip {
  std::int32_t start;  // what its sums start from: what snap_activations returned
  std::int32_t shift;  // its unit, above the least one of the row
};

// A block of rows times a strip of one panel.
struct Int16Tile {
  const void* x;                     // packed
  const std::uint32_t* weights;      // Panels' words; aligned to 64 bytes
  int rows;                          // 1 to LinearInt16Kernels::rows
  int terms;                         // a multiple of kInt16Alignment, at most int16::kTermBlock
  const Int16Strip* strips;          // [rows]
  std::int64_t* totals;              // [rows][kPanel], added to; aligned to 64 bytes
  const std::uint32_t* corrections;  // what find_corrections() made of the weights; aligned to 64 bytes
  const std::byte* next;             // weights that are wanted next, of which the tile may prefetch
  int next_bytes;                    // so many for each kInt16Alignment terms
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
  std::int64_t terms_alignment;  // to which the terms of a strip of x are rounded up, at least kInt16Alignment
  std::size_t activation_bytes;  // a packed term of one row

  std::uint32_t (*largest_bits)(const float* x, std::int64_t k);    // of the magnitudes
  std::int32_t (*snap_activations)(const Int16Activations& strip);  // returns what the strip's sums start from
  // What tiles ask of a strip of a panel beside its words, once for all blocks of a task; null: nothing.
  void (*find_corrections)(const std::uint32_t* words, int terms, std::uint32_t* corrections) = nullptr;
  void (*multiply)(const Int16Tile& tile);
  void (*round)(const Int16Sums& sums);  // int16::result of each

  int min_rows = 1;                               // the fewest of a call
  const LinearInt16Kernels* for_fewer = nullptr;  // the table for calls of fewer rows; its min_rows is 1
};

// All that the machine can run of an instruction set, the quickest last; the machine must support the instruction set.
std::vector<const LinearInt16Kernels*> linear_int16_tables(Isa isa);

const LinearInt16Kernels& linear_int16_scalar();
const LinearInt16Kernels* linear_int16_simd(Isa isa);  // 16-bit products; null: not in this build
const LinearInt16Kernels* linear_int16_vnni();         // AVX-512 with byte products; null: not in this build
const LinearInt16Kernels* linear_int16_winograd();     // the same, with additions for a third of its products
const LinearInt16Kernels* linear_int16_amx();          // AVX-512 with tiles of byte products; null: not in this build
const LinearInt16Kernels* linear_int16_dot();          // NEON with byte products; null: not in this build

// Refuses rows of more terms than an exact sum can hold.
std::unique_ptr<kernels::PreparedLinear> prepare_linear_int16(const LinearInt16Kernels& kernels,
                                                              const CpuDevice& device, std::string_view layer,
                                                              std::span<const WeightView> weights);

}  // namespace reprofuse::cpu
