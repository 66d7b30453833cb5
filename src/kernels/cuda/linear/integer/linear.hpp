// The CUDA layer of a contract that multiplies integers, which its ContractKernels describe; layer.hpp runs its
// schedules.
#pragma once

#include <memory>

#include "kernels/cuda/linear/integer/params.hpp"
#include "kernels/cuda/linear/integer/schedule.hpp"
#include "kernels/cuda/linear/layer.hpp"

namespace reprofuse::cuda::integer {

class CudaLinear : public ScheduledLinear<Kernel, Schedule> {
 public:
  CudaLinear(const ContractKernels& contract, const CudaLayerOptions& options, std::span<const WeightView> weights);

  std::size_t workspace_bytes(std::int64_t max_m) const override;
  bool run_fused(const kernels::Producer& producer, const kernels::LinearCall& call) const override;

 private:
  struct Rows {  // of x, that one launch takes
    std::int64_t first;
    std::int64_t count;
  };

  bool can_keep_digits() const;
  void find_kernels(bool keep);
  void find_row_kernels();
  void find_exponents();
  void keep_digits();
  Problem problem(const kernels::LinearCall& call, const Group& group) const override;
  void launch(const kernels::LinearCall& call, const Group& group, Schedule schedule) const override;
  void run_group(const kernels::LinearCall& call, const Group& group) const override;
  void snap_activations(const Params& p, cudaStream_t stream) const;
  void prepare_weights(const Params& p, cudaStream_t stream) const;
  void add_partials(const Params& p, cudaStream_t stream) const;
  void launch_producer(const kernels::Producer& producer, const kernels::LinearCall& call, const Params& p) const;
  Params params(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const;
  void add_outputs(const kernels::LinearCall& call, const Group& group, Rows rows, int tile_n, Params& p) const;
  void launch_rows(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const;
  void launch_products(const Kernel& kernel, const Params& all, cudaStream_t stream) const;
  void launch_tiles(const Kernel& kernel, const Params& p, cudaStream_t stream) const;
  std::int64_t prepared_tile_bytes(const Kernel& kernel) const;
  std::size_t max_prepared_bytes() const;
  std::size_t rows_bytes(std::int64_t m) const;
  std::size_t digits_bytes(const Kernel& kernel, std::int64_t m) const;

  struct Release {
    void operator()(void* memory) const;
  };
  const ContractKernels& contract_;
  RowKernel snap_, norm_, silu_;                      // that leave digits for this layer; the last two, or none
  std::unique_ptr<std::uint8_t, Release> exponents_;  // of every row of every weight, in their order
  std::vector<std::int64_t> first_exponent_;          // of each weight
};

// What a backend makes the layers of a contract by.
template <const ContractKernels& (*kContract)()>
std::unique_ptr<kernels::PreparedLinear> prepare_linear(const CudaLayerOptions& options,
                                                        std::span<const WeightView> weights) {
  return std::make_unique<CudaLinear>(kContract(), options, weights);
}

}  // namespace reprofuse::cuda::integer
