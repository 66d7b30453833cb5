// Times device work the way it will run: captured in a graph and replayed.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace reprofuse::cuda {

// `work` enqueues on the stream it is given; it runs once for warm-up, once under capture. Returns the seconds of each
// of `repeats` replays.
std::vector<double> time_replays(int ordinal, int repeats, const std::function<void(void* stream)>& work);

// Enqueues a plain read of device memory; `sink` is one word, written only so that the reads are not dropped.
void enqueue_read(int ordinal, const void* memory, std::size_t bytes, void* sink, void* stream);

}  // namespace reprofuse::cuda
