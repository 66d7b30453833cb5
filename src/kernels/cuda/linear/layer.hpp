// The host half that all CUDA linear layers share: weights in groups of one launch each, their tensor maps, the checks,
// and running a schedule: the one expected to be fastest, or one that a test or an ablation asks for.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/linear/problem.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/schemes.hpp"

namespace reprofuse::cuda {

// With the device that the layer is made for.
struct CudaLayerOptions : kernels::LayerOptions {
  int ordinal = 0;
};

// How the TMA of compute capability 9.0 and later sees a matrix in device memory: as boxes of rows and columns.
struct BoxedMatrix {
  const void* data;  // rows start on 16 bytes
  int element_bytes;
  std::int64_t rows, columns, stride;
  int box_rows, box_columns;
  // In a box, 16-byte vector v of row r lies at v ^ r % 8: no bank conflicts between 8 rows of 128 bytes.
  bool swizzle_128b;
};

// An error names the matrix: `what` it is of linear layer `name`.
CUtensorMap tensor_map_of(const BoxedMatrix& matrix, const char* what, const std::string& name);

// Checks of a linear layer's operands that every CUDA contract makes.
inline constexpr std::int64_t kMaxColumns = 4'000'000;
static_assert(kMaxColumns / 64 + 8 <= kMaxGridYZ && kMaxColumns < kMaxRows, "the narrowest tile must fit a grid");

inline bool is_vector_aligned(const void* data, std::int64_t stride_bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0;
}

inline void require_columns(const std::string& name, std::int64_t columns) {
  require(columns <= kMaxColumns, "linear '{}': {} output columns; the CUDA backend takes at most {} in one layer",
          name, columns, kMaxColumns);
}

inline void require_layer_rows(const std::string& name, std::int64_t rows) {
  require(rows < kMaxRows, "linear '{}': {} rows; the CUDA backend takes fewer than {} in one call", name, rows,
          kMaxRows);
}

inline void require_device_memory(const std::string& name, std::size_t weight, const void* pointer, int ordinal) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  require(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged,
          "linear '{}' weight {}: the data pointer is not CUDA device memory", name, weight);
  require(attributes.type == cudaMemoryTypeManaged || attributes.device == ordinal,
          "linear '{}' weight {}: the data is memory of CUDA device {}, the context's is {}", name, weight,
          attributes.device, ordinal);
}

inline void require_workspace_alignment(const std::string& name, const void* workspace) {
  require(reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0,
          "linear '{}': the workspace at {} is not aligned to {} bytes", name, workspace, kWorkspaceAlignment);
}

class LinearBase : public kernels::PreparedLinear {
 public:
  std::string implementation() const override;

 protected:
  struct Group {  // the outputs of one launch
    std::size_t begin;
    std::size_t count;
    std::int64_t first_column;
  };

  LinearBase(const CudaLayerOptions& options, std::span<const WeightView> weights);

  void require_weights_on_device() const;
  // Of the weights whose alignment allows them; until then, and of all others, they are zero.
  void make_tensor_maps();
  // Of m rows. `vector_loads`: what the contract asks besides aligned weights.
  Problem problem_of(const Group& group, std::int64_t m, bool vector_loads) const;
  // The most that a group's partials take, where `bytes` counts those of a problem; no schedule takes more than the
  // limit.
  template <typename Bytes>
  std::size_t max_partial_bytes(std::int64_t max_m, const Bytes& bytes) const {
    std::size_t max = 0;
    for (const Group& group : groups_)
      max = std::max(max, std::min<std::size_t>(bytes(problem_of(group, max_m, true)), kMaxPartialBytes));
    return max;
  }

  unsigned op_;
  std::string name_;
  Device device_;
  std::vector<WeightView> weights_;
  std::vector<CUtensorMap> maps_;  // of each weight
  std::vector<Group> groups_;
};

// Kernel and Schedule are those of a contract, whose schedule.hpp says how to choose.
template <typename Kernel, typename Schedule>
class ScheduledLinear : public LinearBase {
 public:
  std::optional<kernels::NonFinite> run(const kernels::LinearCall& call) const override {
    require_workspace_alignment(name_, call.workspace);
    const DeviceScope device(device_.ordinal);
    for (const Group& group : groups_) run_group(call, group);
    return std::nullopt;
  }

  const std::vector<Kernel>& kernel_table() const { return kernels_; }
  // All schedules that can run the call; its outputs must fit one launch.
  std::vector<Schedule> schedules(const kernels::LinearCall& call) const {
    return possible_schedules(kernels_, problem(call, groups_[0]));
  }
  Schedule chosen_schedule(const kernels::LinearCall& call) const {
    return choose_schedule(device_, kernels_, problem(call, groups_[0]));
  }
  void run_with(const kernels::LinearCall& call, Schedule schedule) const {
    invariant(groups_.size() == 1, "run_with() takes one launch");
    const DeviceScope device(device_.ordinal);
    launch(call, groups_[0], schedule);
  }

 protected:
  using Group = LinearBase::Group;

  using LinearBase::LinearBase;

  virtual Problem problem(const kernels::LinearCall& call, const Group& group) const = 0;
  virtual void launch(const kernels::LinearCall& call, const Group& group, Schedule schedule) const = 0;
  virtual void run_group(const kernels::LinearCall& call, const Group& group) const {
    launch(call, group, choose_schedule(device_, kernels_, problem(call, group)));
  }

  std::vector<Kernel> kernels_;  // filled by the contract's constructor
};

}  // namespace reprofuse::cuda
