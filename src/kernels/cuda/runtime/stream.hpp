// Streams, events and graphs of a device.
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "kernels/backend.hpp"

namespace reprofuse::cuda {

// A stream that does not wait for the default one.
class Stream final : public kernels::Stream {
 public:
  explicit Stream(int ordinal);
  ~Stream() override;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void* handle() const override { return stream_; }
  void synchronize() const override;

 private:
  cudaStream_t stream_ = nullptr;
};

class Event final : public kernels::Event {
 public:
  explicit Event(int ordinal);
  ~Event() override;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(void* stream) override;
  void make_wait(void* stream) const;  // what it is given from now on, for this event
  void synchronize() const override;
  bool is_reached() const override;
  double seconds_since(const kernels::Event& earlier) const override;

 private:
  int ordinal_;
  cudaEvent_t event_ = nullptr;
};

class Graph final : public kernels::Graph {
 public:
  // `work` enqueues on the stream it is given; nothing runs until replay().
  Graph(int ordinal, const std::function<void(void* stream)>& work);
  ~Graph() override;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay(void* stream) const override;

 private:
  int ordinal_;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace reprofuse::cuda
