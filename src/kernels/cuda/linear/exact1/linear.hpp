// The prepared CUDA layer of contract exact-1, and an entry point for tests that runs a given schedule.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/linear/exact1/schedule.hpp"
#include "kernels/linear.hpp"

namespace reprofuse::cuda::exact1 {

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

  struct Rows {  // of x, that one launch takes
    std::int64_t first;
    std::int64_t count;
  };

  void find_exponents();
  Problem problem(const kernels::LinearCall& call, const Group& group) const;
  Params params(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const;
  void add_outputs(const kernels::LinearCall& call, const Group& group, Rows rows, int tile_n, Params& p) const;
  void launch(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const;

  unsigned op_;
  std::string name_;
  Device device_;
  std::vector<WeightView> weights_;
  std::vector<Group> groups_;
  std::vector<Kernel> kernels_;
  struct Release {
    void operator()(void* memory) const;
  };
  std::unique_ptr<std::uint8_t, Release> exponents_;  // of every row of every weight, in their order
  std::vector<std::int64_t> first_exponent_;          // of each weight
  std::vector<CUtensorMap> maps_;                     // likewise
};

}  // namespace reprofuse::cuda::exact1
