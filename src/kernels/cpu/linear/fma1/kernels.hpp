// The kernels of contract fma-1 for one instruction set, as a table. Which one runs is decided by the caller alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/cpu/linear/panels.hpp"
#include "kernels/cpu/machine.hpp"
#include "kernels/linear.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

// The most rows a kernel takes at once. Rows are read once per group of panels, so a group may be wider than a register
// tile.
inline constexpr int kMaxTileRows = 12;

// One segment of K for `rows` rows and `panels` panels.
struct SegmentTile {
  const float* x;            // [terms][rows]
  const void* weights;       // the first panel, at the segment's first term
  std::size_t panel_stride;  // bytes from a panel to the next
  int rows;                  // 1 to kMaxTileRows
  int panels;                // 1 to kGroupPanels
  int terms;                 // 1 to fma1::kSegment
  bool first;                // the fold starts here
  float* totals;             // [rows][totals_stride], the first panels * kPanel of each row; aligned to 64 bytes
  std::size_t totals_stride;
};

// Computes the chain of every output in the tile, then total = chain (first) or total = total + chain.
// Bits: every total equals that of reference::linear_fma1 after the same segment.
using SegmentKernel = void (*)(const SegmentTile&);

struct LinearFma1Kernels {
  std::string_view target;  // compiled in: what really runs
  int lanes;                // floats in the registers the kernels were compiled for
  int rows;                 // the most in a tile, at most kMaxTileRows
  SegmentKernel bf16;
  SegmentKernel f16;
  SegmentKernel f32;

  SegmentKernel kernel(DType dtype) const { return dtype == DType::kBF16 ? bf16 : dtype == DType::kF16 ? f16 : f32; }
};

// Null when this build has no kernels for the instruction set. Says nothing about the machine.
const LinearFma1Kernels* compiled_linear_fma1(Isa isa);

const LinearFma1Kernels& linear_fma1_scalar();       // a true fused multiply-add on every machine
const LinearFma1Kernels* linear_fma1_simd(Isa isa);  // null: not in this build

// All that the machine can run of an instruction set, which it must support: one.
std::vector<const LinearFma1Kernels*> linear_fma1_tables(Isa isa);

std::unique_ptr<kernels::PreparedLinear> prepare_linear_fma1(const LinearFma1Kernels& kernels, const CpuDevice& device,
                                                             std::string_view layer,
                                                             std::span<const WeightView> weights);

}  // namespace reprofuse::cpu
