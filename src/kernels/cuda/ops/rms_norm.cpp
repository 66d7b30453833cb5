#include "kernels/cuda/ops/ops_launch.hpp"
#include "kernels/cuda/ops/params.hpp"

namespace reprofuse::cuda {

void rms_norm(const Launch& launch, const kernels::RmsNormCall& call) {
  if (call.x.rows == 0) return;
  require_rows("rms_norm", call.x.rows);
  const DeviceScope device(launch.ordinal);
  const fma1::ops::RmsNormParams params{.x = call.x.data,
                                        .delta = call.delta.data,
                                        .weight = call.weight,
                                        .y = call.y.data,
                                        .x_stride = call.x.stride,
                                        .delta_stride = call.delta.stride,
                                        .y_stride = call.y.stride,
                                        .k = static_cast<int>(call.x.cols),
                                        .eps = call.eps,
                                        .op = launch.op,
                                        .record = record_of(launch)};
  const GridShape shape{.grid = dim3(static_cast<unsigned>(call.x.rows)), .threads = fma1::ops::kNormThreads};
  check(launch_kernel(fma1::ops::rms_norm_kernel(params.k), shape, params, launch.stream), "rms_norm");
}

}  // namespace reprofuse::cuda
