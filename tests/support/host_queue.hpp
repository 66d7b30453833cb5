// The streams of host_backend.hpp: work runs at once, or is recorded while it is captured.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace reprofuse::test {

using Work = std::vector<std::function<void()>>;

// What a stream's handle points to.
struct HostQueue {
  Work* recording = nullptr;  // while work is captured
};

inline void enqueue(void* stream, std::function<void()> work) {
  auto* queue = static_cast<HostQueue*>(stream);
  if (queue != nullptr && queue->recording != nullptr)
    queue->recording->push_back(std::move(work));
  else
    work();
}

}  // namespace reprofuse::test
