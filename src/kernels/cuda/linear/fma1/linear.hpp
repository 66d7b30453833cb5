// The CUDA layer of fma-1; layer.hpp runs its schedules.
#pragma once

#include "kernels/cuda/linear/fma1/schedule.hpp"
#include "kernels/cuda/linear/layer.hpp"

namespace reprofuse::cuda::fma1 {

class CudaLinear : public ScheduledLinear<Kernel, Schedule> {
 public:
  CudaLinear(const CudaLayerOptions& options, std::span<const WeightView> weights);

  std::size_t workspace_bytes(std::int64_t max_m) const override;

 private:
  Problem problem(const kernels::LinearCall& call, const Group& group) const override;
  void launch(const kernels::LinearCall& call, const Group& group, Schedule schedule) const override;
};

std::unique_ptr<kernels::PreparedLinear> prepare_linear(const CudaLayerOptions& options,
                                                        std::span<const WeightView> weights);

}  // namespace reprofuse::cuda::fma1
