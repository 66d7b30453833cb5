// The definition of every bit of the linear layer by contract exact-1: plain 64-bit integers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/schemes.hpp"
#include "numerics/exact.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::reference {

// A row of one operand as integers.
struct SnappedRow {
  std::vector<std::int32_t> values;
  int exponent = 0;
  bool finite = true;  // otherwise the values say nothing
};

SnappedRow snap_activations(const float* x, std::int64_t k);
SnappedRow snap_weights(const WeightView& weight, std::int64_t row);

// The sum over the terms [begin, end). Such sums over any parts of K, added in any order, are the sum over K: a machine
// may own a part, if all take the exponents of whole rows.
std::int64_t sum_terms(const SnappedRow& x, const SnappedRow& w, std::int64_t begin, std::int64_t end);

// bias may be null. A row with a NaN or an infinity gives NaN; the caller checks the results.
void linear_exact1(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y);

inline constexpr kernels::LinearScheme kLinearExact1{.name = "exact-1",
                                                     .reference = linear_exact1,
                                                     .max_terms = exact1::kMaxTerms,
                                                     .multiplier = kernels::Multiplier::kInteger8};

}  // namespace reprofuse::reference
