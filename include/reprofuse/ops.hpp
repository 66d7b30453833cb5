// The operations of a transformer beside its linear layers, for those who write a forward pass of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprofuse/context.hpp"
#include "reprofuse/export.hpp"
#include "reprofuse/op_calls.hpp"

namespace reprofuse {

// A Workspace, or memory of the caller's that reset_workspace() has prepared.
struct WorkspaceView {
  WorkspaceView(const Workspace& workspace) : data(workspace.data()), bytes(workspace.bytes()) {}
  WorkspaceView(void* memory, std::size_t size) : data(memory), bytes(size) {}
  void* data;
  std::size_t bytes;
};

// Sizes of a batch, for the workspace of attention.
struct AttentionSizes {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;
  std::int64_t rows = 0;    // at most so many tokens,
  std::int64_t chunks = 0;  // of so many sequences,
  std::int64_t keys = 0;    // each with so many keys
};

// Bits: each operation equals its reference in NUMERICS.md for every row alone, whatever the other rows and the device.
//
// CPU: computes and returns. Sizes, ids and positions are checked, page numbers are not. What is not finite is thrown
// by rms_norm and attention; the others pass it on. CUDA: enqueues on `stream` (a cudaStream_t; null is the default
// stream) without allocating or synchronising, so that calls can be captured in a graph. Sizes are checked; what arrays
// on the device hold is not. check_workspace() tells of values that are not finite. Several threads may call, each with
// a workspace of its own.
class REPROFUSE_API Ops {
 public:
  // `name` is what errors call the place: "layer 3".
  explicit Ops(const Context& context, std::string name = "ops");
  ~Ops();
  Ops(Ops&&) noexcept;
  Ops& operator=(Ops&&) noexcept;

  void embedding(const EmbeddingCall& call, WorkspaceView workspace, void* stream = nullptr) const;
  void rms_norm(const RmsNormCall& call, WorkspaceView workspace, void* stream = nullptr) const;
  void rotary(const RotaryCall& call, WorkspaceView workspace, void* stream = nullptr) const;
  void attention(const AttentionCall& call, WorkspaceView workspace, void* stream = nullptr) const;
  void silu_gate(const SiluGateCall& call, WorkspaceView workspace, void* stream = nullptr) const;
  void gather_rows(const GatherRowsCall& call, WorkspaceView workspace, void* stream = nullptr) const;

  // What attention() needs for any batch within these sizes; the others need no more than a workspace's head, for which
  // 0 bytes are enough. Throws kUnsupported for heads that the device's kernels do not take.
  std::size_t attention_workspace_bytes(const AttentionSizes& sizes) const;

  // Of the elements of KvPages, as the context's numerics have them.
  DType kv_dtype() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Rows [0, positions) of cos and sin for RotaryCall, in host memory: frequency i is theta^(-2i / head_dim).
struct RotaryTable {
  std::vector<float> cos, sin;  // [positions, head_dim / 2]
};
REPROFUSE_API RotaryTable rotary_table(double theta, std::int64_t head_dim, std::int64_t positions);

}  // namespace reprofuse
