// The prepared CUDA layer of a contract that multiplies integers, and an entry point for tests that runs a given
// schedule.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/cuda/linear/integer/digit_rows.hpp"
#include "kernels/cuda/linear/integer/params.hpp"
#include "kernels/cuda/linear/integer/schedule.hpp"
#include "kernels/cuda/linear/layer.hpp"

namespace reprofuse::cuda::integer {

// What a contract brings.
struct Scheme {
  std::string_view name;
  std::int64_t max_terms;       // in a sum
  std::size_t row_bytes;        // of what it keeps of a row besides digits
  int digits;                   // of a weight
  int (*tile_bytes)(int rows);  // of so many rows of x and kTileK terms
  bool keeps_digits;            // of weights in their place, where it may
  // Its kernels for weights of a format, or kept as digits: for every device, and those with wgmma, of compute
  // capability 9.0.
  std::vector<Kernel> (*mma_kernels)(DType dtype, bool kept);
  std::vector<Kernel> (*wgmma_kernels)(DType dtype, bool kept);
  // Makes the others ready, so that no run has to.
  cudaError_t (*load_row_kernels)();
  // Digits and what is kept of every row of x, zero digits up to whole tiles and k-tiles.
  cudaError_t (*snap_activations)(const Params& params, cudaStream_t stream);
  // Kernels of the ops before, which leave their rows so (NormRowsParams, SiluRowsParams).
  RowKernel (*norm_rows_kernel)(int k);
  RowKernel (*silu_rows_kernel)(int k);
  // Adds the partials of the splits and stores the results.
  cudaError_t (*add_partials)(const Params& params, cudaStream_t stream);
  // exponents[n] of a weight matrix. The first row that is not finite goes to *first_bad, kept as a minimum.
  cudaError_t (*weight_exponents)(const WeightView& weight, std::uint8_t* exponents, int* first_bad,
                                  cudaStream_t stream);
  // Digits of the launch's column tiles of weights, for kernels that take prepared ones.
  cudaError_t (*prepare_weights)(const Params& params, DType dtype, cudaStream_t stream);
};

class CudaLinear : public ScheduledLinear<Kernel, Schedule> {
 public:
  CudaLinear(const Scheme& scheme, const kernels::CudaTarget& target, std::span<const WeightView> weights);

  std::size_t workspace_bytes(std::int64_t max_m) const override;
  bool run_fused(const kernels::Producer& producer, const kernels::LinearCall& call) const override;

 private:
  struct Rows {  // of x, that one launch takes
    std::int64_t first;
    std::int64_t count;
  };

  bool can_keep_digits() const;
  void find_kernels(bool keep);
  void find_producers();
  void find_exponents();
  void keep_digits();
  Problem problem(const kernels::LinearCall& call, const Group& group) const override;
  void launch(const kernels::LinearCall& call, const Group& group, Schedule schedule) const override;
  void run_group(const kernels::LinearCall& call, const Group& group) const override;
  void launch_producer(const kernels::Producer& producer, const kernels::LinearCall& call, const Params& p) const;
  Params params(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const;
  void add_outputs(const kernels::LinearCall& call, const Group& group, Rows rows, int tile_n, Params& p) const;
  void launch_rows(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const;
  void launch_products(const Kernel& kernel, const Params& all, cudaStream_t stream) const;
  void launch_tiles(const Kernel& kernel, const Params& p, cudaStream_t stream) const;
  std::int64_t prepared_tile_bytes(const Kernel& kernel) const;
  std::size_t most_prepared_bytes() const;
  std::size_t rows_bytes(std::int64_t m) const;
  std::size_t digits_bytes(const Kernel& kernel, std::int64_t m) const;

  struct Release {
    void operator()(void* memory) const;
  };
  const Scheme& scheme_;
  RowKernel norm_, silu_;                             // that leave digits for this layer; or none
  std::unique_ptr<std::uint8_t, Release> exponents_;  // of every row of every weight, in their order
  std::vector<std::int64_t> first_exponent_;          // of each weight
};

}  // namespace reprofuse::cuda::integer
