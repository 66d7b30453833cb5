// Weights packed for the CPU kernels: once, for every instruction set alike.
//
// A panel holds kPanel output columns. 16-bit weights: for each pair of terms (k, k + 1) one word per column, k in its
// low and k + 1 in its high half, so that widening is a lane operation on machines of either byte order; the high half
// of an odd last term is zero and is never multiplied. binary32 weights: for each term one word per column.
// Columns past the end of a matrix are zero; their results are never stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

// Output columns in a panel: the same for every register width, so packing knows no ISA.
inline constexpr int kPanel = 16;

inline constexpr std::size_t kCacheLine = 64;

// Which outputs a panel computes.
struct PanelColumns {
  std::size_t output;         // which of the fused outputs
  std::int64_t column;        // first column there
  std::int64_t columns;       // 1 to kPanel
  std::int64_t concatenated;  // first column over all outputs
};

class Panels {
 public:
  // All weights share k and dtype; each starts a new panel. Throws kNonFinite for a NaN or an infinity, naming the
  // layer and the first one's weight, row and column.
  Panels(std::span<const WeightView> weights, std::string_view layer, ThreadPool& pool);

  DType dtype() const { return dtype_; }
  std::int64_t k() const { return k_; }
  std::size_t panel_bytes() const { return panel_bytes_; }
  std::span<const PanelColumns> columns() const { return columns_; }

  // Term k of the panel; k is even.
  const void* at(std::int64_t panel, std::int64_t k) const;

 private:
  void pack_all(std::span<const WeightView> weights, std::string_view layer, ThreadPool& pool);
  bool pack(const WeightView& weight, std::int64_t panel);  // false: a weight is not finite

  DType dtype_;
  std::int64_t k_;
  std::size_t panel_bytes_;
  std::vector<PanelColumns> columns_;
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<std::uint32_t[], Free> words_;
};

}  // namespace reprofuse::cpu
