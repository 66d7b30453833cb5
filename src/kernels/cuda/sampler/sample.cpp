#include "kernels/cuda/sampler/sample.hpp"

#include <algorithm>
#include <vector>

#include "base/math.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/memory.hpp"
#include "kernels/cuda/runtime/stream.hpp"

namespace reprofuse::cuda {
namespace {

using kernels::SampleResult;
using kernels::SampleRow;

struct Release {
  void operator()(void* pointer) const { release(pointer); }
};
template <class T>
using DeviceArray = std::unique_ptr<T[], Release>;

template <class T>
DeviceArray<T> make_array(int ordinal, std::int64_t count) {
  return DeviceArray<T>(static_cast<T*>(allocate(ordinal, static_cast<std::size_t>(count) * sizeof(T))));
}

struct ReleaseStaging {
  void operator()(void* pointer) const { cudaFreeHost(pointer); }
};
template <class T>
using StagingArray = std::unique_ptr<T[], ReleaseStaging>;

template <class T>
StagingArray<T> make_staging(int ordinal, std::int64_t count) {
  const DeviceScope device(ordinal);
  void* memory = nullptr;
  check(cudaMallocHost(&memory, static_cast<std::size_t>(count) * sizeof(T)), "cudaMallocHost");
  return StagingArray<T>(static_cast<T*>(memory));
}

// Roots of rows, on a stream beside the sampler's: it leaves many multiprocessors idle.
class RootHash {
 public:
  RootHash(int ordinal, std::int64_t vocabulary, std::int64_t max_rows)
      : ordinal_(ordinal), vocabulary_(vocabulary), max_rows_(max_rows) {}

  // What `stream` has been given till now comes first.
  void start_after(cudaStream_t stream) {
    if (!memory_) memory_ = std::make_unique<Memory>(ordinal_, vocabulary_, max_rows_);
    memory_->ready.record(stream);
    memory_->ready.make_wait(memory_->stream.handle());
  }

  void launch(const SampleRow* rows, std::int64_t count) {
    check(hash::launch_logits_roots(rows, static_cast<int>(count), static_cast<int>(vocabulary_), memory_->nodes.get(),
                                    memory_->roots.get(), static_cast<cudaStream_t>(memory_->stream.handle())),
          "logits_roots");
  }

  // Waits. The rows of launch().
  void take(std::span<const SampleRow> rows, std::span<SampleResult> results) {
    std::vector<std::uint8_t> roots(rows.size() * kRootBytes);
    const auto stream = static_cast<cudaStream_t>(memory_->stream.handle());
    check(cudaMemcpyAsync(roots.data(), memory_->roots.get(), roots.size(), cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].logits_root) std::copy_n(roots.data() + i * kRootBytes, kRootBytes, results[i].logits_root);
  }

 private:
  static constexpr std::size_t kRootBytes = sizeof(SampleResult::logits_root);

  struct Memory {  // when a root is first asked for
    Memory(int ordinal, std::int64_t vocabulary, std::int64_t max_rows)
        : nodes(make_array<std::byte>(ordinal,
                                      static_cast<std::int64_t>(hash::logits_root_workspace(max_rows, vocabulary)))),
          roots(make_array<std::uint8_t>(ordinal, max_rows * static_cast<std::int64_t>(kRootBytes))),
          stream(ordinal),
          ready(ordinal) {}
    DeviceArray<std::byte> nodes;
    DeviceArray<std::uint8_t> roots;  // [max_rows, 32]
    Stream stream;
    Event ready;
  };

  int ordinal_;
  std::int64_t vocabulary_;
  std::int64_t max_rows_;
  std::unique_ptr<Memory> memory_;
};

class Batch : public kernels::SampleBatch {
 public:
  Batch(int ordinal, std::int64_t vocabulary, std::int64_t max_rows)
      : ordinal_(ordinal),
        vocabulary_(vocabulary),
        words_(ceil_div<std::int64_t>(vocabulary, 32)),
        max_rows_(max_rows),
        rows_(make_array<SampleRow>(ordinal, max_rows)),
        results_(make_array<SampleResult>(ordinal, max_rows)),
        seen_(make_array<std::uint32_t>(ordinal, max_rows * words_)),
        hash_(ordinal, vocabulary, max_rows) {}

  void run(std::span<const SampleRow> rows, std::span<SampleResult> results, void* stream) override {
    const auto count = static_cast<std::int64_t>(rows.size());
    invariant(count <= max_rows_ && results.size() == rows.size(), "a sampler batch of a wrong size");
    if (count == 0) return;
    const DeviceScope device(ordinal_);
    const auto on = static_cast<cudaStream_t>(stream);
    std::vector<SampleRow> device_rows(rows.begin(), rows.end());
    std::int64_t seen = 0;  // words, in one copy: each takes a driver's time
    for (SampleRow& row : device_rows) {
      if (row.seen == nullptr) continue;
      if (!staged_seen_) staged_seen_ = make_staging<std::uint32_t>(ordinal_, max_rows_ * words_);
      std::copy_n(row.seen, words_, staged_seen_.get() + seen);
      row.seen = seen_.get() + seen;
      seen += words_;
    }
    if (seen > 0)
      check(cudaMemcpyAsync(seen_.get(), staged_seen_.get(), static_cast<std::size_t>(seen) * sizeof(std::uint32_t),
                            cudaMemcpyHostToDevice, on),
            "cudaMemcpyAsync");
    check(cudaMemcpyAsync(rows_.get(), device_rows.data(), device_rows.size() * sizeof(SampleRow),
                          cudaMemcpyHostToDevice, on),
          "cudaMemcpyAsync");
    const bool hashes = std::ranges::any_of(rows, &SampleRow::logits_root);
    if (hashes) hash_.start_after(on);
    launch_sample(ordinal_, rows_.get(), count, vocabulary_, results_.get(), stream);
    if (hashes) hash_.launch(rows_.get(), count);
    check(cudaMemcpyAsync(results.data(), results_.get(), results.size_bytes(), cudaMemcpyDeviceToHost, on),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(on), "cudaStreamSynchronize");
    if (hashes) hash_.take(rows, results);
  }

 private:
  int ordinal_;
  std::int64_t vocabulary_;
  std::int64_t words_;  // of `seen`, per row
  std::int64_t max_rows_;
  DeviceArray<SampleRow> rows_;
  DeviceArray<SampleResult> results_;
  DeviceArray<std::uint32_t> seen_;          // [max_rows, words]
  StagingArray<std::uint32_t> staged_seen_;  // likewise, of the host, once a row needs it
  RootHash hash_;
};

}  // namespace

void launch_sample(int ordinal, const SampleRow* rows, std::int64_t count, std::int64_t vocabulary,
                   SampleResult* results, void* stream) {
  const DeviceScope device(ordinal);
  check(fma1::launch_sample_rows(rows, static_cast<int>(count), static_cast<int>(vocabulary), results,
                                 static_cast<cudaStream_t>(stream)),
        "sample_rows");
}

std::unique_ptr<kernels::SampleBatch> make_sample_batch(int ordinal, std::int64_t vocabulary, std::int64_t max_rows) {
  return std::make_unique<Batch>(ordinal, vocabulary, max_rows);
}

}  // namespace reprofuse::cuda
