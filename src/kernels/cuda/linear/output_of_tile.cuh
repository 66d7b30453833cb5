// Which output of a linear layer a tile belongs to, for the Params of any contract.
#pragma once

namespace reprofuse::cuda {

// The last whose first_tile is not beyond it.
template <typename Params>
__device__ inline const auto& output_of_tile(const Params& p, int tile) {
  int i = p.count - 1;
  while (i > 0 && p.outputs[i].first_tile > tile) --i;
  return p.outputs[i];
}

}  // namespace reprofuse::cuda
