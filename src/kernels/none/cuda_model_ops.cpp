// The CUDA model operations of a build without CUDA.
#include "base/check.hpp"
#include "kernels/cuda/ops/model_ops.hpp"
#include "kernels/cuda/runtime/backend.hpp"

namespace reprofuse::cuda {
namespace {

// As every function of the backend that is not there.
[[noreturn]] void missing() {
  require_device(0);
  fail(ErrorCode::kInternal, "internal error: a device without a CUDA backend");
}

}  // namespace

void embedding(const Launch&, const kernels::EmbeddingCall&) {
  missing();
}
void rms_norm(const Launch&, const kernels::RmsNormCall&) {
  missing();
}
void rotary(const Launch&, const kernels::RotaryCall&) {
  missing();
}
void attention(const Launch&, const kernels::AttentionCall&) {
  missing();
}
void silu_gate(const Launch&, const kernels::SiluGateCall&) {
  missing();
}
void gather_rows(const Launch&, const kernels::GatherRowsCall&) {
  missing();
}
void round_bf16(const Launch&, const kernels::RoundBf16Call&) {
  missing();
}
std::size_t attention_workspace_bytes(int, int, int, int, int) {
  missing();
}
void require_attention_shape(std::int64_t, std::int64_t, std::int64_t) {
  missing();
}
void copy_to_device_async(int, void*, const void*, std::size_t, void*) {
  missing();
}

CudaStream::CudaStream(int) {
  missing();
}
CudaStream::~CudaStream() = default;
CudaStream::CudaStream(CudaStream&&) noexcept = default;
CudaStream& CudaStream::operator=(CudaStream&&) noexcept = default;
void CudaStream::synchronize() const {
  missing();
}

PinnedBuffer::PinnedBuffer(int, std::size_t) {
  missing();
}
PinnedBuffer::~PinnedBuffer() = default;
PinnedBuffer::PinnedBuffer(PinnedBuffer&&) noexcept = default;
PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&&) noexcept = default;

CudaGraph CudaGraph::capture(int, const std::function<void(void*)>&) {
  missing();
}
CudaGraph::~CudaGraph() = default;
CudaGraph::CudaGraph(CudaGraph&&) noexcept = default;
CudaGraph& CudaGraph::operator=(CudaGraph&&) noexcept = default;
void CudaGraph::replay(void*) const {
  missing();
}

}  // namespace reprofuse::cuda
