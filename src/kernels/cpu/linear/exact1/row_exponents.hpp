// The exponent that contract exact-1 gives each row of the weights, in a byte of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "numerics/exact.hpp"

namespace reprofuse::cpu {

class RowExponents {
 public:
  RowExponents(const Panels& panels, ThreadPool& pool);

  // Of the row that is column c of a panel.
  int at(std::int64_t panel, int c) const {
    return bytes_[static_cast<std::size_t>(panel * kPanel + c)] + exact1::kLeastExponent;
  }

 private:
  std::vector<std::uint8_t> bytes_;  // above kLeastExponent; binary32 has 232 of them
};

}  // namespace reprofuse::cpu
