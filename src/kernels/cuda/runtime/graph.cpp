#include <memory>
#include <utility>

#include "kernels/cuda/ops/model_ops.hpp"
#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {

void copy_to_device_async(int ordinal, void* to, const void* from, std::size_t bytes, void* stream) {
  const DeviceScope device(ordinal);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream)), "cudaMemcpyAsync");
}

CudaStream::CudaStream(int ordinal) {
  const DeviceScope device(ordinal);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_ = stream;
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
}

CudaStream::CudaStream(CudaStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

CudaStream& CudaStream::operator=(CudaStream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}

void CudaStream::synchronize() const {
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), "cudaStreamSynchronize");
}

PinnedBuffer::PinnedBuffer(int ordinal, std::size_t bytes) {
  const DeviceScope device(ordinal);
  check(cudaMallocHost(&data_, bytes), "cudaMallocHost");
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

CudaGraph CudaGraph::capture(int ordinal, const std::function<void(void* stream)>& work) {
  const DeviceScope device(ordinal);
  const CudaStream stream(ordinal);
  const auto on = static_cast<cudaStream_t>(stream.get());
  check(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work(stream.get());
  } catch (...) {
    if (cudaStreamEndCapture(on, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(on, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
  CudaGraph captured;
  captured.ordinal_ = ordinal;
  captured.exec_ = exec;
  return captured;
}

CudaGraph::~CudaGraph() {
  if (exec_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(exec_));
}

CudaGraph::CudaGraph(CudaGraph&& other) noexcept
    : ordinal_(other.ordinal_), exec_(std::exchange(other.exec_, nullptr)) {}

CudaGraph& CudaGraph::operator=(CudaGraph&& other) noexcept {
  std::swap(ordinal_, other.ordinal_);
  std::swap(exec_, other.exec_);
  return *this;
}

void CudaGraph::replay(void* stream) const {
  invariant(exec_ != nullptr, "a graph is replayed that was never captured");
  const DeviceScope device(ordinal_);
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(exec_), static_cast<cudaStream_t>(stream)), "cudaGraphLaunch");
}

}  // namespace reprofuse::cuda
