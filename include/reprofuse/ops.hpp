// The operations of a transformer that are no linear layers, for those who write a forward pass of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "reprofuse/context.hpp"
#include "reprofuse/export.hpp"
#include "reprofuse/op_calls.hpp"
#include "reprofuse/rotary.hpp"

namespace reprofuse {

// Sizes of a batch, for the workspace of attention.
struct AttentionSizes {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;
  std::int64_t rows = 0;    // at most so many tokens,
  std::int64_t chunks = 0;  // of so many sequences,
  std::int64_t keys = 0;    // each with so many keys
};

// Memory of the keys of one page in one layer; its values take as much.
struct KvPageBytes {
  std::size_t elements = 0;  // of KvPages::keys
  std::size_t units = 0;     // of KvPages::key_units; 0 where the contract's elements are floating-point numbers
};

// Bits: each operation equals its reference in NUMERICS.md for every row alone, whatever the other rows and the device.
//
// What a call gets wrong is kInvalidArgument, with the place and the value: sizes, null or misaligned pointers, results
// that overlap what they are made of and, on the CPU, what arrays hold: ids, positions, page numbers. Of arrays on a
// GPU only the pointers and sizes are checked: an index outside its range there is undefined behaviour.
//
// CPU: computes and returns. What is not finite is thrown by rms_norm, rotary (in k and v) and attention; the others
// pass it on. CUDA: enqueues on `stream` (a cudaStream_t; null is the default stream) without allocating or
// synchronising, so that calls can be captured in a graph. check_workspace() tells of values that are not finite;
// rotary passes those of k on to attention, which finds them, and those of v to what reads its result. Several threads
// may call, each with a workspace of its own.
//
// CUDA: what is complete when. A kernel may begin before the one ahead of it in the stream has ended, and waits for it
// before it reads what that one may have written, with two exceptions: the weights and biases of linear layers and of
// rms_norm, and the arrays of a Batch. Write these by copies, or by kernels that a copy, an event or a synchronisation
// separates from the call; a kernel directly ahead of it in the stream may not write them. Everything else may come
// straight from the kernel ahead: x, delta, q, k, v, gate, up, ids, pages.
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

  // Of the elements of KvPages, as the context's numerics have them. None: they are integers, whose form is the
  // backend's own; kv_page_bytes() is all that a caller needs to know of them.
  std::optional<DType> kv_dtype() const;
  KvPageBytes kv_page_bytes(std::int64_t kv_heads, std::int64_t head_dim, std::int64_t page_size) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprofuse
