#include "kernels/cuda/sampler/sample.hpp"

#include <algorithm>
#include <vector>

#include "base/math.hpp"
#include "kernels/cuda/runtime/backend.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/sampler/sample_launch.hpp"

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

class Batch : public kernels::SampleBatch {
 public:
  Batch(int ordinal, std::int64_t vocabulary, std::int64_t max_rows)
      : ordinal_(ordinal),
        vocabulary_(vocabulary),
        words_(ceil_div<std::int64_t>(vocabulary, 32)),
        max_rows_(max_rows),
        rows_(make_array<SampleRow>(ordinal, max_rows)),
        results_(make_array<SampleResult>(ordinal, max_rows)),
        seen_(make_array<std::uint32_t>(ordinal, max_rows * words_)) {}

  void run(std::span<const SampleRow> rows, std::span<SampleResult> results, void* stream) override {
    const auto count = static_cast<std::int64_t>(rows.size());
    invariant(count <= max_rows_ && results.size() == rows.size(), "a sampler batch of a wrong size");
    if (count == 0) return;
    const DeviceScope device(ordinal_);
    const auto on = static_cast<cudaStream_t>(stream);
    std::vector<SampleRow> device_rows(rows.begin(), rows.end());
    for (std::size_t i = 0; i < device_rows.size(); ++i) {
      if (rows[i].seen == nullptr) continue;
      std::uint32_t* words = seen_.get() + static_cast<std::int64_t>(i) * words_;
      check(cudaMemcpyAsync(words, rows[i].seen, static_cast<std::size_t>(words_) * sizeof(std::uint32_t),
                            cudaMemcpyHostToDevice, on),
            "cudaMemcpyAsync");
      device_rows[i].seen = words;
    }
    check(cudaMemcpyAsync(rows_.get(), device_rows.data(), device_rows.size() * sizeof(SampleRow),
                          cudaMemcpyHostToDevice, on),
          "cudaMemcpyAsync");
    launch_sample(ordinal_, rows_.get(), count, vocabulary_, results_.get(), stream);
    check(cudaMemcpyAsync(results.data(), results_.get(), results.size_bytes(), cudaMemcpyDeviceToHost, on),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(on), "cudaStreamSynchronize");
  }

 private:
  int ordinal_;
  std::int64_t vocabulary_;
  std::int64_t words_;  // of `seen`, per row
  std::int64_t max_rows_;
  DeviceArray<SampleRow> rows_;
  DeviceArray<SampleResult> results_;
  DeviceArray<std::uint32_t> seen_;  // [max_rows, words]
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
