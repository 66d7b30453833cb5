#include "kernels/cpu/first_place.hpp"
#include "kernels/cpu/for_each_row.hpp"
#include "kernels/cpu/ops/model_ops.hpp"
#include "kernels/cpu/ops/model_ops_kernels.hpp"

namespace reprofuse::cpu {

std::optional<kernels::Place> rms_norm(const kernels::CpuBackend& backend, const kernels::RmsNormCall& call) {
  const ModelOpsKernels& kernels = model_ops_kernels(backend.isa);
  FirstPlace failure;
  for_each_row(*backend.pool, call.x.rows, call.x.cols, [&](std::int64_t m, int) {
    const bool finite =
        kernels.norm_row({.x = call.x.data + m * call.x.stride,
                          .delta = call.delta.data == nullptr ? nullptr : call.delta.data + m * call.delta.stride,
                          .weight = call.weight,
                          .eps = call.eps,
                          .k = call.x.cols,
                          .y = call.y.data + m * call.y.stride});
    if (!finite) failure.add({.row = m, .column = 0});
  });
  return failure.get();
}

}  // namespace reprofuse::cpu
