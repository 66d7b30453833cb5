// The tables of kernels for linear layers, of every scheme: several for an instruction set whose machines differ, such
// as AVX-512 with and without VNNI. A context takes the quickest; whoever compares kernels goes over all.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/cpu/machine.hpp"
#include "kernels/linear.hpp"
#include "kernels/schemes.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

struct LinearTables {
  std::string_view scheme;
  std::size_t (*count)(Isa isa);  // that the machine can run, the quickest last; it must support the instruction set
  // A layer by one of those of the device's instruction set.
  std::unique_ptr<kernels::PreparedLinear> (*prepare)(std::size_t table, const CpuDevice& device,
                                                      std::string_view layer, std::span<const WeightView> weights);
};

// Null: the CPU backend lists no kernels for the scheme.
const LinearTables* find_linear_tables(const kernels::LinearScheme& scheme);

}  // namespace reprofuse::cpu
