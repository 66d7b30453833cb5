// The prepared CUDA layer of contract exact-1, and an entry point for tests that runs a given schedule.
#pragma once

#include <memory>

#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/linear/exact1/schedule.hpp"
#include "kernels/cuda/linear/layer.hpp"

namespace reprofuse::cuda::exact1 {

class CudaLinear : public ScheduledLinear<Kernel, Schedule> {
 public:
  CudaLinear(const kernels::CudaTarget& target, std::span<const WeightView> weights);

  std::size_t workspace_bytes(std::int64_t max_m) const override;

 private:
  struct Rows {  // of x, that one launch takes
    std::int64_t first;
    std::int64_t count;
  };

  void find_exponents();
  Problem problem(const kernels::LinearCall& call, const Group& group) const override;
  void launch(const kernels::LinearCall& call, const Group& group, Schedule schedule) const override;
  void run_group(const kernels::LinearCall& call, const Group& group) const override;
  Params params(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const;
  void add_outputs(const kernels::LinearCall& call, const Group& group, Rows rows, int tile_n, Params& p) const;
  void launch_rows(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const;

  struct Release {
    void operator()(void* memory) const;
  };
  std::unique_ptr<std::uint8_t, Release> exponents_;  // of every row of every weight, in their order
  std::vector<std::int64_t> first_exponent_;          // of each weight
};

}  // namespace reprofuse::cuda::exact1
