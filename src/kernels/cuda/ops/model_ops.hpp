// The operations of kernels/model_ops.hpp on CUDA, and what a model needs of a device to run them: streams, pinned
// memory, copies and captured graphs. Implemented in kernels/cuda/, or in kernels/none/ when the build has no CUDA.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/model_ops.hpp"

namespace reprofuse::cuda {

// Where an operation runs. Nothing is waited for: results, and the record of what is not finite, are there when the
// stream is done. A non-finite result is recorded with `op`, its row and its column, which is 0 for a norm and the head
// for attention.
struct Launch {
  int ordinal = 0;
  unsigned op = 0;
  void* workspace = nullptr;        // begins with the record, kWorkspaceHead bytes
  std::size_t workspace_bytes = 0;  // all of it
  void* stream = nullptr;
};

void embedding(const Launch& launch, const kernels::EmbeddingCall& call);
void rms_norm(const Launch& launch, const kernels::RmsNormCall& call);
void rotary(const Launch& launch, const kernels::RotaryCall& call);
void attention(const Launch& launch, const kernels::AttentionCall& call);
void silu_gate(const Launch& launch, const kernels::SiluGateCall& call);
void gather_rows(const Launch& launch, const kernels::GatherRowsCall& call);
void round_bf16(const Launch& launch, const kernels::RoundBf16Call& call);

// The workspace that attention() needs, head included, for at most so many chunks, rows and keys.
std::size_t attention_workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys);

// Throws kUnsupported for heads that attention() does not take.
void require_attention_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim);

// Enqueued; the host memory of a copy must be pinned for the call to return at once, and must live until it is done.
void copy_to_device_async(int ordinal, void* to, const void* from, std::size_t bytes, void* stream);

// A stream that does not wait for the default one.
class CudaStream {
 public:
  CudaStream() = default;
  explicit CudaStream(int ordinal);
  ~CudaStream();
  CudaStream(CudaStream&& other) noexcept;
  CudaStream& operator=(CudaStream&& other) noexcept;

  void* get() const { return stream_; }
  void synchronize() const;

 private:
  void* stream_ = nullptr;
};

// Host memory that copies can use without a detour.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(int ordinal, std::size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

// Work recorded once and launched whole.
class CudaGraph {
 public:
  CudaGraph() = default;
  // `work` enqueues on the stream it is given; nothing runs until replay().
  static CudaGraph capture(int ordinal, const std::function<void(void* stream)>& work);
  ~CudaGraph();
  CudaGraph(CudaGraph&& other) noexcept;
  CudaGraph& operator=(CudaGraph&& other) noexcept;

  bool empty() const { return exec_ == nullptr; }
  void replay(void* stream) const;

 private:
  int ordinal_ = 0;
  void* exec_ = nullptr;
};

}  // namespace reprofuse::cuda
