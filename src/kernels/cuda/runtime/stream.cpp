#include "kernels/cuda/runtime/stream.hpp"

#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {

Stream::Stream(int ordinal) {
  const DeviceScope device(ordinal);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

void Stream::synchronize() const {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

Event::Event(int ordinal) : ordinal_(ordinal) {
  const DeviceScope device(ordinal);
  check(cudaEventCreate(&event_), "cudaEventCreate");
}

Event::~Event() {
  cudaEventDestroy(event_);
}

void Event::record(void* stream) {
  const DeviceScope device(ordinal_);
  check(cudaEventRecord(event_, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
}

void Event::make_wait(void* stream) const {
  const DeviceScope device(ordinal_);
  check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), event_), "cudaStreamWaitEvent");
}

void Event::synchronize() const {
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

bool Event::is_reached() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

double Event::seconds_since(const kernels::Event& earlier) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, static_cast<const Event&>(earlier).event_, event_), "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

Graph::Graph(int ordinal, const std::function<void(void* stream)>& work) : ordinal_(ordinal) {
  const DeviceScope device(ordinal);
  const Stream stream(ordinal);
  const auto on = static_cast<cudaStream_t>(stream.handle());
  check(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work(stream.handle());
  } catch (...) {
    if (cudaStreamEndCapture(on, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(on, &graph), "cudaStreamEndCapture");
  const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
}

Graph::~Graph() {
  cudaGraphExecDestroy(exec_);
}

void Graph::replay(void* stream) const {
  const DeviceScope device(ordinal_);
  check(cudaGraphLaunch(exec_, static_cast<cudaStream_t>(stream)), "cudaGraphLaunch");
}

}  // namespace reprofuse::cuda
