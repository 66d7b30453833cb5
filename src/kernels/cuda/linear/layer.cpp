#include "kernels/cuda/linear/layer.hpp"

#include <algorithm>

#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {
namespace {

decltype(&cuTensorMapEncodeTiled) find_encoder() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion");
  if (entry == nullptr || found != cudaDriverEntryPointSuccess)
    fail(ErrorCode::kDevice, "the CUDA driver has no cuTensorMapEncodeTiled: it is older than CUDA 12.0");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
}

}  // namespace

CUtensorMap tensor_map_of(const BoxedMatrix& matrix, const char* what, const std::string& name) {
  static const auto encode = find_encoder();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.columns), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.stride * matrix.element_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(matrix.box_columns), static_cast<cuuint32_t>(matrix.box_rows)};
  const cuuint32_t steps[] = {1, 1};
  CUtensorMap map{};
  const CUresult status =
      encode(&map, matrix.element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16 : CU_TENSOR_MAP_DATA_TYPE_UINT32, 2,
             const_cast<void*>(matrix.data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             matrix.swizzle_128b ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail(ErrorCode::kDevice, "{} of linear '{}': no tensor map for {} x {} elements with row stride {}: CUDA status {}",
         what, name, matrix.rows, matrix.columns, matrix.stride, static_cast<int>(status));
  return map;
}

LinearBase::LinearBase(const CudaLayerOptions& options, std::span<const WeightView> weights)
    : op_(options.op),
      name_(options.name),
      device_(read_device(options.ordinal)),
      weights_(weights.begin(), weights.end()),
      maps_(weights.size()) {
  std::int64_t columns = 0;
  for (std::size_t begin = 0; begin < weights.size(); begin += kMaxOutputs) {
    const std::size_t count = std::min<std::size_t>(kMaxOutputs, weights.size() - begin);
    groups_.push_back({begin, count, columns});
    for (std::size_t i = begin; i < begin + count; ++i) columns += weights[i].n;
  }
  require_columns(name_, columns);
}

std::string LinearBase::implementation() const {
  return fmt::format("cuda {}", device_.architecture);
}

void LinearBase::require_weights_on_device() const {
  for (std::size_t i = 0; i < weights_.size(); ++i) require_device_memory(name_, i, weights_[i].data, device_.ordinal);
}

void LinearBase::make_tensor_maps() {
  const DeviceScope scope(device_.ordinal);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const WeightView& weight = weights_[i];
    const int bytes = static_cast<int>(dtype_bytes(weight.dtype));
    if (!is_vector_aligned(weight.data, weight.stride * bytes)) continue;
    maps_[i] = tensor_map_of({.data = weight.data,
                              .element_bytes = bytes,
                              .rows = weight.n,
                              .columns = weight.k,
                              .stride = weight.stride,
                              .box_rows = kBoxRows,
                              .box_columns = kBoxRowBytes / bytes,
                              .swizzle_128b = true},
                             "weights", name_);
  }
}

Problem LinearBase::problem_of(const Group& group, std::int64_t m, bool vector_loads) const {
  const int bytes = static_cast<int>(dtype_bytes(weights_[0].dtype));
  Problem p{.m = m, .k = weights_[0].k, .n = {}, .vector_loads = vector_loads, .weight_bytes = bytes};
  for (std::size_t i = group.begin; i < group.begin + group.count; ++i) {
    p.n.push_back(weights_[i].n);
    p.vector_loads = p.vector_loads && is_vector_aligned(weights_[i].data, weights_[i].stride * bytes);
  }
  return p;
}

}  // namespace reprofuse::cuda
