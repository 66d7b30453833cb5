// The vendors' libraries of one backend, each opened by the first layer that needs it; linear layers by them; and the
// casts around their products on a GPU.
#pragma once

#include <climits>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "kernels/backend.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::vendor {

// cuBLAS, for CUDA's baselines alone: found at run time, so that nothing here depends on it.

// A row-major matrix of any element type on the device. Sizes and strides are at most 2^31 - 1.
struct DeviceMatrix {
  const void* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
};

// One handle, for the device that is current when it is made and must be current again at each call. Threads may share
// it: a call holds a lock while it enqueues.
class Cublas {
 public:
  // Throws kUnsupported, with the reason and what to install, when the machine has no cuBLAS.
  Cublas();

  // Where a product is enqueued. The scratch is the caller's and fixed, as graph capture wants it: cuBLAS allocates
  // nothing, and products on other streams use other scratch.
  struct Queue {
    void* stream;
    void* scratch;  // kScratchBytes, aligned to 256 bytes
  };
  static constexpr std::size_t kScratchBytes = std::size_t{32} << 20;  // what NVIDIA advises from Hopper on

  // y = x · wᵀ in binary32, TF32 off. Bits: whatever the library gives.
  void sgemm(ConstMatrix x, const DeviceMatrix& w, Matrix y, const Queue& queue) const;
  // The same with operands that the library may round to TF32 for its tensor cores.
  void tf32(ConstMatrix x, const DeviceMatrix& w, Matrix y, const Queue& queue) const;
  // The same with x, w and y in BF16, accumulated in binary32: what inference engines run by default. y is dense.
  void bf16(const DeviceMatrix& x, const DeviceMatrix& w, void* y, const Queue& queue) const;

  std::string description() const;  // "cuBLAS 13.0.2"

 private:
  struct CloseLibrary {
    void operator()(void* library) const;
  };
  struct DestroyHandle {
    void* library;
    void operator()(void* handle) const;
  };
  void gemm(const DeviceMatrix& x, const DeviceMatrix& w, void* y, std::int64_t y_stride, int type, int compute,
            const Queue& queue) const;

  std::unique_ptr<void, CloseLibrary> library_;
  std::unique_ptr<void, DestroyHandle> handle_;
  mutable std::mutex mutex_;  // stream and scratch belong to the handle
};

// OpenBLAS, for the CPU's baselines alone: found at run time, so that nothing here depends on it.
class OpenBlas {
 public:
  // Throws kUnsupported, with the reason and what to install, when the machine has no OpenBLAS.
  explicit OpenBlas(int threads);

  // y = x · wᵀ, all binary32; w is [n, k] with rows k apart, each size at most 2^31 - 1. Bits: whatever the library
  // gives. OpenBLAS keeps its number of threads per process: calls at the same time with other numbers share one.
  void sgemm(ConstMatrix x, const float* w, Matrix y) const;

  std::string description() const;  // "OpenBLAS 0.3.21 ... Cooperlake"

 private:
  struct Close {
    void operator()(void* library) const;
  };
  std::unique_ptr<void, Close> library_;
  int threads_;
};

template <typename Library>
class OnDemand {
 public:
  // Arguments count the first time only. Throws what the library's constructor throws, and tries again next time.
  template <typename... Arguments>
  const Library& get(Arguments... arguments) const {
    std::lock_guard lock(mutex_);
    if (!library_) library_.emplace(arguments...);
    return *library_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::optional<Library> library_;
};

struct Libraries {
  OnDemand<OpenBlas> openblas;
  OnDemand<Cublas> cublas;
};

inline const OpenBlas& openblas_of(const kernels::Backend& backend) {
  return backend.attached<Libraries>().openblas.get(backend.required_pool().threads());
}

// Makes the backend's device that of the calling thread, as cuBLAS wants it.
inline const Cublas& cublas_of(const kernels::Backend& backend) {
  backend.make_current();
  return backend.attached<Libraries>().cublas.get();
}

inline std::string describe_openblas(const kernels::Backend& backend) {
  return openblas_of(backend).description();
}
inline std::string describe_cublas(const kernels::Backend& backend) {
  return cublas_of(backend).description();
}

// The linear layer by a vendor's library: baselines, selected like a contract, that pin no bits. Non-finite results are
// neither looked for nor recorded, as in the frameworks they stand for. Calls of cuBLAS can be captured in a graph.

// SGEMM on binary32 copies of the weights, made here once: twice the memory of 16-bit weights.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_sgemm(const kernels::Backend& backend,
                                                                const kernels::LayerOptions& layer,
                                                                std::span<const WeightView> weights);

// LayerCast: weights keep their format; each call casts one after another to a transient binary32 copy in the workspace
// and multiplies by SGEMM.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_layercast(const kernels::Backend& backend,
                                                                    const kernels::LayerOptions& layer,
                                                                    std::span<const WeightView> weights);

// x and y rounded to BF16 around the product, as frameworks run it. Debian's OpenBLAS multiplies no BF16, so the
// product itself is LayerCast's. Binary32 weights are rounded to BF16 here; binary16 weights are an error.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_bf16(const kernels::Backend& backend,
                                                               const kernels::LayerOptions& layer,
                                                               std::span<const WeightView> weights);

// SGEMM, TF32 off, on binary32 copies of the weights, made here once: twice the memory of 16-bit weights, beside them.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_sgemm(const kernels::Backend& backend,
                                                              const kernels::LayerOptions& layer,
                                                              std::span<const WeightView> weights);

// LayerCast: weights keep their format; each call casts one after another to a transient binary32 copy in the workspace
// and multiplies by SGEMM, TF32 off.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_layercast(const kernels::Backend& backend,
                                                                  const kernels::LayerOptions& layer,
                                                                  std::span<const WeightView> weights);

// BF16 x, weights and y, accumulated in binary32: x is rounded before the product and y widened after it. Binary32
// weights are rounded to BF16 here; binary16 weights are an error.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_bf16(const kernels::Backend& backend,
                                                             const kernels::LayerOptions& layer,
                                                             std::span<const WeightView> weights);

// The vendors' interfaces count in 32-bit integers.
inline void require_int_sizes(std::span<const WeightView> weights, std::string_view name) {
  for (const WeightView& w : weights)
    require(w.n <= INT_MAX && w.k <= INT_MAX && w.stride <= INT_MAX,
            "linear '{}': a weight of {} x {} with row stride {} is larger than a baseline takes", name, w.n, w.k,
            w.stride);
}

inline void require_int_sizes(const kernels::LinearCall& call, std::string_view name) {
  require(call.x.rows <= INT_MAX && call.x.stride <= INT_MAX,
          "linear '{}': x of {} rows with row stride {} is larger than a baseline takes", name, call.x.rows,
          call.x.stride);
  for (const LinearOutput& output : call.outputs)
    require(output.y.stride <= INT_MAX, "linear '{}': a result with row stride {} is larger than a baseline takes",
            name, output.y.stride);
}

// BF16 has other exponents than binary16, so a framework that runs BF16 would not take such weights as they are.
inline void require_bf16_or_f32(std::span<const WeightView> weights, std::string_view name) {
  if (weights[0].dtype == DType::kF16)
    fail(ErrorCode::kUnsupported,
         "linear '{}': the weights are f16; numerics 'bf16' takes bf16, or f32, which it rounds. 'layercast' takes f16",
         name);
}

}  // namespace reprofuse::vendor

namespace reprofuse::cuda {

// Changes of number format on the device, and the bias: what the baselines need around cuBLAS's product.
// Enqueued on `stream` (a cudaStream_t); nothing is allocated and nothing waits.

// to: [n, k], dense. Exact.
void enqueue_widen(int ordinal, const WeightView& weight, float* to, void* stream);

// to: [rows, cols] of BF16, dense, rounded to nearest even.
void enqueue_round_bf16(int ordinal, ConstMatrix from, void* to, void* stream);

// y = from, widened; with a bias, y = bf16(from + bias), widened. from: [y.rows, y.cols] of BF16, dense.
void enqueue_widen_bf16_result(int ordinal, const void* from, const float* bias, Matrix y, void* stream);

// y = y + bias
void enqueue_add_bias(int ordinal, const float* bias, Matrix y, void* stream);

}  // namespace reprofuse::cuda
