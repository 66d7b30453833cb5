#include "kernels/cuda/runtime/memory.hpp"

#include <memory>

#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {

std::int64_t free_bytes(int ordinal) {
  const DeviceScope device(ordinal);
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

void* allocate(int ordinal, std::size_t bytes) {
  const DeviceScope device(ordinal);
  void* pointer = nullptr;
  check(cudaMalloc(&pointer, bytes), "cudaMalloc");
  return pointer;
}

void* allocate_workspace(int ordinal, std::size_t bytes) {
  const DeviceScope device(ordinal);
  std::unique_ptr<void, void (*)(void*) noexcept> memory(allocate(ordinal, bytes), release);
  reset_record(ordinal, memory.get(), nullptr);
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // other streams do not wait for the default one
  return memory.release();
}

void release(void* pointer) noexcept {
  cudaFree(pointer);
}

void copy_to_device(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // from pageable memory, cudaMemcpy may return early
}

void copy_to_host(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
}

void reset_record(int ordinal, void* workspace, void* stream) {
  const DeviceScope device(ordinal);
  check(cudaMemsetAsync(workspace, 0xff, sizeof(Record), static_cast<cudaStream_t>(stream)), "cudaMemsetAsync");
}

std::optional<OpNonFinite> take_record(int ordinal, void* workspace, void* stream) {
  const DeviceScope device(ordinal);
  Record record = kNothingRecorded;
  const auto on = static_cast<cudaStream_t>(stream);
  check(cudaMemcpyAsync(&record, workspace, sizeof(record), cudaMemcpyDeviceToHost, on), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(on), "cudaStreamSynchronize");
  if (record == kNothingRecorded) return std::nullopt;
  reset_record(ordinal, workspace, stream);
  return unpack(record);
}

}  // namespace reprofuse::cuda
