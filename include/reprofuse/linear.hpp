// The linear layer y = x · up(W)ᵀ + b, and lists of them that share x (Q, K, V; gate, up) in one launch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "reprofuse/context.hpp"
#include "reprofuse/export.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse {

struct LinearOutput {
  Matrix y;                     // [m, n]
  const float* bias = nullptr;  // [n], or none
};

// What a CUDA layer may do with the memory of its weights.
enum class WeightUse : std::uint8_t {
  kRead,  // read it, as others may
  kTake,  // keep them there in another form, of the same size: nobody else may read them from then on, also where the
          // layer cannot be made, and no two matrices may overlap
};

// Bits: every y[m, n] equals the contract's reference for row m of x and row n of W alone, whatever the other rows,
// the other outputs, the device, the threads and the sizes m and n.
// Several threads may run one layer at a time, each with a workspace of its own.
class REPROFUSE_API LinearLayer {
 public:
  // CPU: packs the weights into panels; the views may be freed afterwards.
  // CUDA: keeps the device pointers and copies nothing. The weights must be complete when the layer is made, must not
  // change and must outlive it. Contracts in integers read them once, here, and keep a byte for each of their rows;
  // int16-1 turns those that it may take into digits, where their sizes allow it.
  // All weights share k and dtype; contracts in integers take k up to 131072. `name` appears in error messages.
  LinearLayer(const Context& context, std::span<const WeightView> weights, std::string name = "linear",
              WeightUse use = WeightUse::kRead);
  ~LinearLayer();
  LinearLayer(LinearLayer&&) noexcept;
  LinearLayer& operator=(LinearLayer&&) noexcept;

  // Which kernels run() takes: "avx512", "avx512 vnni", "cuda sm_90".
  std::string implementation() const;

  // Scratch that run() needs for any batch of up to max_m rows.
  std::size_t workspace_bytes(std::int64_t max_m) const;

  // No y may overlap x, a bias or another y; columns of one matrix, as views with its row stride, do not overlap.
  // CPU: computes and returns. CUDA: enqueues kernels on `stream` (a cudaStream_t; null is the default stream) without
  // allocating or synchronising, so the call can be captured in a graph; call check_workspace() before using y.
  // What must be complete before the call is said in ops.hpp.
  void run(ConstMatrix x, std::span<const LinearOutput> outputs, WorkspaceView workspace, void* stream = nullptr) const;

 private:
  friend struct FusedLinear;  // of the library itself: ops/transformer_ops.hpp
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprofuse
