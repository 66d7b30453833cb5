#include "kernels/cuda/measure/timing.hpp"

#include "kernels/cuda/measure/read.hpp"
#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {
namespace {

// Owns a CUDA handle.
template <typename Handle, cudaError_t (*destroy)(Handle)>
struct Owned {
  Handle handle{};
  ~Owned() {
    if (handle != Handle{}) destroy(handle);
  }
};
using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

constexpr int kWarmUps = 3;

}  // namespace

std::vector<double> time_replays(int ordinal, int repeats, const std::function<void(void*)>& work) {
  const DeviceScope device(ordinal);
  Stream stream;
  check(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking), "cudaStreamCreate");
  work(stream.handle);
  check(cudaStreamSynchronize(stream.handle), "warm-up");

  Graph graph;
  check(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  work(stream.handle);
  check(cudaStreamEndCapture(stream.handle, &graph.handle), "cudaStreamEndCapture");
  GraphExec replay;
  check(cudaGraphInstantiate(&replay.handle, graph.handle, 0), "cudaGraphInstantiate");
  for (int i = 0; i < kWarmUps; ++i) check(cudaGraphLaunch(replay.handle, stream.handle), "cudaGraphLaunch");

  Event begin, end;
  check(cudaEventCreate(&begin.handle), "cudaEventCreate");
  check(cudaEventCreate(&end.handle), "cudaEventCreate");
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    check(cudaEventRecord(begin.handle, stream.handle), "cudaEventRecord");
    check(cudaGraphLaunch(replay.handle, stream.handle), "cudaGraphLaunch");
    check(cudaEventRecord(end.handle, stream.handle), "cudaEventRecord");
    check(cudaEventSynchronize(end.handle), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.handle, end.handle), "cudaEventElapsedTime");
    seconds.push_back(milliseconds * 1e-3);
  }
  return seconds;
}

void enqueue_read(int ordinal, const void* memory, std::size_t bytes, void* sink, void* stream) {
  const DeviceScope device(ordinal);
  int sm_count = 0;
  check(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, ordinal), "cudaDeviceGetAttribute");
  check(launch_read(memory, bytes, sink, sm_count, static_cast<cudaStream_t>(stream)), "read_memory");
}

}  // namespace reprofuse::cuda
