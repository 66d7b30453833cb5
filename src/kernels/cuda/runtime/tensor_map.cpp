#include "kernels/cuda/runtime/tensor_map.hpp"

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

}  // namespace reprofuse::cuda
