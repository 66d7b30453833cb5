#include "kernels/cuda/runtime/device.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {
namespace {

// A device that another one can act as, and the shared memory that it has.
struct EmulatedDevice {
  std::string_view name;
  int major, minor;
  int shared_bytes_per_cta, shared_bytes_per_sm;
};
constexpr EmulatedDevice kEmulatedDevices[] = {
    {"sm_80", 8, 0, 163 << 10, 164 << 10},  // A100
    {"sm_86", 8, 6, 99 << 10, 100 << 10},   // A10, A40, RTX 30
    {"sm_89", 8, 9, 99 << 10, 100 << 10},   // L4, L40S, RTX 40
};
std::atomic<const EmulatedDevice*> emulated_device = nullptr;  // of every device; none: itself

int own_attribute(int ordinal, cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
  return value;
}

cudaDeviceProp properties(int ordinal) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, ordinal), "cudaGetDeviceProperties");
  return device;
}

}  // namespace

int device_attribute(int ordinal, cudaDeviceAttr which) {
  const int own = own_attribute(ordinal, which);
  const EmulatedDevice* emulated = emulated_device;
  if (emulated == nullptr) return own;
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: return emulated->major;
    case cudaDevAttrComputeCapabilityMinor: return emulated->minor;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return std::min(own, emulated->shared_bytes_per_cta);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return std::min(own, emulated->shared_bytes_per_sm);
    default: return own;
  }
}

bool is_emulated() {
  return emulated_device != nullptr;
}

void require_device(int ordinal) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    fail(ErrorCode::kUnsupported,
         "no usable CUDA device: there is no NVIDIA driver, or one too old for CUDA {}.{}. The CPU gives the same bits "
         "by the same contract",
         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (status != cudaSuccess)
    fail(ErrorCode::kUnsupported, "no usable CUDA device: {}. The CPU gives the same bits by the same contract",
         cudaGetErrorString(status));
  if (ordinal < 0 || ordinal >= count)
    fail(ErrorCode::kUnsupported, "CUDA device {} does not exist; this machine has {}", ordinal, count);
  const cudaDeviceProp device = properties(ordinal);
  if (device.major < 8)
    fail(ErrorCode::kUnsupported, "CUDA device {} ({}) has compute capability {}.{}; 8.0 is the least", ordinal,
         device.name, device.major, device.minor);
}

std::string device_description(int ordinal) {
  const cudaDeviceProp device = properties(ordinal);
  const EmulatedDevice* emulated = emulated_device;
  return fmt::format("{} (sm_{}{}){}", device.name, device.major, device.minor,
                     emulated == nullptr ? "" : fmt::format(", as {}", emulated->name));
}

Device read_device(int ordinal) {
  const auto attribute = [&](cudaDeviceAttr which) { return device_attribute(ordinal, which); };
  const int major = attribute(cudaDevAttrComputeCapabilityMajor), minor = attribute(cudaDevAttrComputeCapabilityMinor);
  const double bytes_per_memory_clock = 2.0 * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  const int clock = attribute(cudaDevAttrClockRate);
  return {
      .ordinal = ordinal,
      .sm_count = attribute(cudaDevAttrMultiProcessorCount),
      .shared_bytes_per_cta = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
      .shared_bytes_per_sm = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
      .reserved_shared_bytes_per_cta = attribute(cudaDevAttrReservedSharedMemoryPerBlock),
      .memory_bytes_per_clock = clock > 0 ? bytes_per_memory_clock * attribute(cudaDevAttrMemoryClockRate) / clock : 0,
      .major = major,
      .minor = minor,
      .architecture = fmt::format("sm_{}{}", major, minor)};
}

double peak_fma_gigaflops(int ordinal) {
  const int major = own_attribute(ordinal, cudaDevAttrComputeCapabilityMajor);
  const int minor = own_attribute(ordinal, cudaDevAttrComputeCapabilityMinor);
  const double lanes = major == 8 && minor == 0 ? 64 : 128;  // per SM; GA100 alone has half
  const double gigahertz = own_attribute(ordinal, cudaDevAttrClockRate) * 1e-6;
  return 2.0 * lanes * own_attribute(ordinal, cudaDevAttrMultiProcessorCount) * gigahertz;
}

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

namespace reprofuse::kernels {

void act_as_cuda(std::string_view architecture) {
  const auto* const found = std::ranges::find(cuda::kEmulatedDevices, architecture, &cuda::EmulatedDevice::name);
  if (found == std::end(cuda::kEmulatedDevices)) fail(ErrorCode::kUnsupported, "no GPU can act as '{}'", architecture);
  cuda::emulated_device = found;
}

}  // namespace reprofuse::kernels
