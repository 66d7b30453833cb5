#include "kernels/cuda/sampler/sample.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/math.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
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

// Roots of rows, on a stream beside the sampler's: it leaves many SMs idle.
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

// Rows, their updates of sets and the ids for these, back to back: one copy, since each takes a driver's time.
class Inputs {
 public:
  Inputs(int ordinal, std::int64_t max_rows) : ordinal_(ordinal) { reserve(at_ids(max_rows) + max_rows * kIdBytes); }

  // Ids are those of `seen`. What the rows' updates point to follows `updates`.
  void upload(std::span<const SampleRow> rows, std::span<SeenUpdate> updates, std::span<const kernels::SeenIds> seen,
              cudaStream_t stream) {
    const auto count = static_cast<std::int64_t>(rows.size());
    std::int64_t bytes = at_ids(count);
    for (const kernels::SeenIds& each : seen) bytes += static_cast<std::int64_t>(each.added.size()) * kIdBytes;
    reserve(bytes);
    host_.resize(static_cast<std::size_t>(bytes));
    rows_ = count;
    std::int64_t at = at_ids(count);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      updates[i].added = reinterpret_cast<const std::int32_t*>(device_.get() + at);
      updates[i].count = static_cast<std::int32_t>(seen[i].added.size());
      at += put(at, seen[i].added);
    }
    put(0, rows);
    put(at_updates(count), updates);
    check(cudaMemcpyAsync(device_.get(), host_.data(), host_.size(), cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }

  const SampleRow* rows() const { return reinterpret_cast<const SampleRow*>(device_.get()); }
  const SeenUpdate* updates() const { return reinterpret_cast<const SeenUpdate*>(device_.get() + at_updates(rows_)); }

 private:
  static constexpr std::int64_t kIdBytes = sizeof(std::int32_t);
  static_assert(sizeof(SampleRow) % alignof(SeenUpdate) == 0 && sizeof(SeenUpdate) % kIdBytes == 0);
  static std::int64_t at_updates(std::int64_t rows) { return rows * static_cast<std::int64_t>(sizeof(SampleRow)); }
  static std::int64_t at_ids(std::int64_t rows) {
    return at_updates(rows) + rows * static_cast<std::int64_t>(sizeof(SeenUpdate));
  }

  // No run is under way: each waits for its results.
  void reserve(std::int64_t bytes) {
    if (bytes <= capacity_) return;
    const std::int64_t enough = std::max(bytes, 2 * capacity_);
    device_ = make_array<std::byte>(ordinal_, enough);
    capacity_ = enough;
  }

  template <class T>
  std::int64_t put(std::int64_t at, std::span<T> values) {
    if (!values.empty()) std::memcpy(host_.data() + at, values.data(), values.size_bytes());
    return static_cast<std::int64_t>(values.size_bytes());
  }

  int ordinal_;
  std::int64_t rows_ = 0;
  std::int64_t capacity_ = 0;
  DeviceArray<std::byte> device_;
  std::vector<std::byte> host_;
};

class CudaSampler : public kernels::SamplerBackend {
 public:
  CudaSampler(int ordinal, std::int64_t vocabulary, std::int64_t max_rows)
      : ordinal_(ordinal),
        vocabulary_(vocabulary),
        max_rows_(max_rows),
        inputs_(ordinal, max_rows),
        results_(make_array<SampleResult>(ordinal, max_rows)),
        hash_(ordinal, vocabulary, max_rows) {}

  void run(std::span<const SampleRow> rows, std::span<const kernels::SeenIds> seen, std::span<SampleResult> results,
           void* stream) override {
    const auto count = static_cast<std::int64_t>(rows.size());
    invariant(count <= max_rows_ && results.size() == rows.size(), "a sampler batch of a wrong size");
    if (count == 0) return;
    const DeviceScope device(ordinal_);
    const auto on = static_cast<cudaStream_t>(stream);
    std::vector<SampleRow> device_rows(rows.begin(), rows.end());
    std::vector<SeenUpdate> updates(rows.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (seen[i].to < 0) continue;
      device_rows[i].seen = updates[i].to = set(seen[i].to);
      if (seen[i].from >= 0) updates[i].from = set(seen[i].from);
    }
    inputs_.upload(device_rows, updates, seen, on);
    const bool hashes = std::ranges::any_of(rows, &SampleRow::logits_root);
    if (hashes) hash_.start_after(on);
    launch_sample(ordinal_, inputs_.rows(), inputs_.updates(), count, vocabulary_, results_.get(), stream);
    if (hashes) hash_.launch(inputs_.rows(), count);
    check(cudaMemcpyAsync(results.data(), results_.get(), results.size_bytes(), cudaMemcpyDeviceToHost, on),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(on), "cudaStreamSynchronize");
    if (hashes) hash_.take(rows, results);
  }

 private:
  std::uint32_t* set(std::int32_t number) {
    DeviceArray<std::uint32_t>& words = sets_[number];
    if (!words) words = make_array<std::uint32_t>(ordinal_, ceil_div<std::int64_t>(vocabulary_, 32));
    return words.get();
  }

  int ordinal_;
  std::int64_t vocabulary_;
  std::int64_t max_rows_;
  Inputs inputs_;
  DeviceArray<SampleResult> results_;
  std::map<std::int32_t, DeviceArray<std::uint32_t>> sets_;  // those that were used
  RootHash hash_;
};

}  // namespace

void launch_sample(int ordinal, const SampleRow* rows, const SeenUpdate* updates, std::int64_t count,
                   std::int64_t vocabulary, SampleResult* results, void* stream) {
  const DeviceScope device(ordinal);
  check(sampler::launch_sample_rows(rows, updates, static_cast<int>(count), static_cast<int>(vocabulary), results,
                                    static_cast<cudaStream_t>(stream)),
        "sample_rows");
}

std::unique_ptr<kernels::SamplerBackend> make_sampler(int ordinal, std::int64_t vocabulary, std::int64_t max_rows) {
  return std::make_unique<CudaSampler>(ordinal, vocabulary, max_rows);
}

}  // namespace reprofuse::cuda
