// Packed weights, and how a panel's results are stored. Packing is done once, for every instruction set alike.
//
// A panel holds kPanel output columns. 16-bit weights: for each pair of terms (k, k + 1) one word per column, k in its
// low and k + 1 in its high half, so that widening is a lane operation on machines of either byte order; the high half
// of an odd last term is zero and is never multiplied. binary32 weights: for each term one word per column.
// Columns past the end of a matrix are zero; their results are never stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "kernels/cpu/work_split.hpp"
#include "kernels/linear.hpp"
#include "numerics/float_ops.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

// Output columns in a panel: the same for every register width, so packing is the same for every ISA.
inline constexpr int kPanel = 16;

inline constexpr std::size_t kCacheLine = 64;

// Which outputs a panel computes.
struct PanelColumns {
  std::size_t output;         // which of the fused outputs
  std::int64_t column;        // first column there
  std::int64_t columns;       // 1 to kPanel
  std::int64_t concatenated;  // first column over all outputs
};

// What a contract makes of weights, in panels' words of two terms.
struct PanelForm {
  std::int64_t terms_alignment;  // an even number; what lies past the last term is for `pack` to say
  // Writes the words of one panel. False: a weight is not finite.
  std::function<bool(const WeightView& weight, std::int64_t panel, const PanelColumns& columns, std::uint32_t* words)>
      pack;
};

class Panels {
 public:
  // All weights share k and dtype; each starts a new panel. Throws kNonFinite for a NaN or an infinity, naming the
  // layer and the first one's weight, row and column.
  Panels(std::span<const WeightView> weights, std::string_view layer, ThreadPool& pool);
  Panels(std::span<const WeightView> weights, const PanelForm& form, std::string_view layer, ThreadPool& pool);

  static std::int64_t count(std::span<const WeightView> weights);

  DType dtype() const { return dtype_; }
  std::int64_t k() const { return k_; }
  std::size_t panel_bytes() const { return panel_bytes_; }
  std::span<const PanelColumns> columns() const { return columns_; }

  // Term k of the panel; k is even.
  const std::uint32_t* at(std::int64_t panel, std::int64_t k) const;

 private:
  Panels(std::span<const WeightView> weights, const PanelForm& form, int word_terms, std::string_view layer,
         ThreadPool& pool);
  void pack_all(std::span<const WeightView> weights, const PanelForm& form, std::string_view layer, ThreadPool& pool);

  DType dtype_;
  std::int64_t k_;
  int word_terms_;
  std::size_t panel_bytes_;
  std::vector<PanelColumns> columns_;
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<std::uint32_t[], Free> words_;
};

// Stores totals, and the bias if there is one; says whether all are finite. Loops without branches, whose length is
// known where they are called for a whole panel: compilers make vector code of them.
[[gnu::always_inline]] inline bool store_finite(const float* __restrict totals, const float* __restrict bias,
                                                float* __restrict y, std::int64_t count) {
  std::int32_t others = 0;
  if (bias == nullptr) {
    for (std::int64_t c = 0; c < count; ++c) {
      y[c] = totals[c];
      others |= is_finite_bits(totals[c]) ? 0 : -1;
    }
  } else {
    for (std::int64_t c = 0; c < count; ++c) {
      const float value = totals[c] + bias[c];
      y[c] = value;
      others |= is_finite_bits(value) ? 0 : -1;
    }
  }
  return others == 0;
}

// Bias, check, store: one row of one panel. An infinity or a NaN on the way to a total stays one, so looking at results
// misses nothing.
inline void store_panel_row(const kernels::LinearCall& call, const PanelColumns& columns, const float* totals,
                            std::int64_t row, FirstNonFinite& non_finite) {
  const LinearOutput& output = call.outputs[columns.output];
  const float* bias = output.bias == nullptr ? nullptr : output.bias + columns.column;
  float* y = output.y.data + row * output.y.stride + columns.column;
  const bool finite = columns.columns == kPanel ? store_finite(totals, bias, y, kPanel)
                                                : store_finite(totals, bias, y, columns.columns);
  if (finite) [[likely]]
    return;
  const float* first = std::find_if_not(y, y + columns.columns, is_finite_bits);
  non_finite.add({row, columns.concatenated + (first - y)});
}

// The largest magnitude of each row of weights in a panel, as contracts of fixed point need it.
struct LargestWeights {
  float of[kPanel];  // widened
};

LargestWeights largest_weights(const Panels& panels, std::int64_t panel);

}  // namespace reprofuse::cpu
