// The prepared CUDA layer, and an entry point for tests and ablations that runs a given schedule.
#pragma once

#include <cuda.h>

#include <optional>
#include <vector>

#include "kernels/cuda/linear/fma1/schedule.hpp"
#include "kernels/linear.hpp"

namespace reprofuse::cuda::fma1 {

class CudaLinear : public kernels::PreparedLinear {
 public:
  CudaLinear(const kernels::CudaBackend& backend, std::span<const WeightView> weights);

  std::size_t workspace_bytes(std::int64_t max_m) const override;
  std::optional<kernels::Place> run(const kernels::LinearCall& call) const override;
  std::string implementation() const override;

  const std::vector<Kernel>& kernel_table() const { return kernels_; }
  // All schedules that can run the call; its outputs must fit one launch.
  std::vector<Schedule> schedules(const kernels::LinearCall& call) const;
  Schedule chosen_schedule(const kernels::LinearCall& call) const;
  void run_with(const kernels::LinearCall& call, Schedule schedule) const;

 private:
  struct Group {  // the outputs of one launch
    std::size_t begin;
    std::size_t count;
    std::int64_t first_column;
  };

  Problem problem(const kernels::LinearCall& call, const Group& group) const;
  void launch(const kernels::LinearCall& call, const Group& group, Schedule schedule) const;

  unsigned op_;
  std::string name_;
  Device device_;
  std::vector<WeightView> weights_;
  std::vector<CUtensorMap> maps_;  // of each weight, where boxes can be read
  std::vector<Group> groups_;
  std::vector<Kernel> kernels_;
};

}  // namespace reprofuse::cuda::fma1
