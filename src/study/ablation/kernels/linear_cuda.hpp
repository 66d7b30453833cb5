// The ablated layer on CUDA. With every switch as the contract has it, its bits are those of the shipped kernels.
// Implemented in this folder, or in no_cuda.cpp when the build has no CUDA, where each function throws an Error.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/linear.hpp"
#include "reprofuse/types.hpp"
#include "study/ablation/kernels/variant.hpp"

namespace reprofuse::cuda::ablation {

using reprofuse::ablation::Tile;
using reprofuse::ablation::Variant;

// Device memory throughout. x and weight have rows without padding, and k is a multiple of 4.
struct LinearCall {
  ConstMatrix x;
  WeightView weight;  // BF16
  Matrix y;
  float* partials;  // partial_bytes() of them; may be null where that is 0
};

std::size_t partial_bytes(const Variant& variant, std::int64_t m, std::int64_t n, std::int64_t k);

// Enqueues kernels on `stream` (a cudaStream_t); allocates nothing and waits for nothing.
// Throws kUnsupported where there is no kernel: IEEE arithmetic comes in every tile of tiles(), any other in the pinned
// one.
void enqueue_linear(int ordinal, const Variant& variant, const LinearCall& call, void* stream);

std::vector<Tile> tiles();
int multiprocessors(int ordinal);

// Seconds of `work` on the default stream, once, after once to warm up: no graph, so that a search can afford
// thousands.
double time_once(int ordinal, const std::function<void(void* stream)>& work);

// The shipped layer of contract fma-1 with the schedule chosen by the caller.
class ShippedSchedules {
 public:
  ShippedSchedules(int ordinal, const WeightView& weight);
  ~ShippedSchedules();

  std::size_t workspace_bytes(std::int64_t m) const;
  std::vector<std::string> names(const kernels::LinearCall& call) const;  // of every schedule that can run the call
  void run(const kernels::LinearCall& call, std::size_t index) const;

 private:
  struct Layer;
  std::unique_ptr<Layer> layer_;
};

}  // namespace reprofuse::cuda::ablation
