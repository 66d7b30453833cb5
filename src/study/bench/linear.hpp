// How fast the linear layer is, beside what the machine and the baselines reach in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/backend.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"
#include "study/plot_svg.hpp"

namespace reprofuse::study {

struct BenchShape {
  std::string name;  // "qkv", or the shape itself
  std::int64_t n;
  std::int64_t k;
  std::int64_t max_m = INT64_MAX;  // a vocabulary is projected for the tokens that are sampled, not for a prompt
  std::string model{};             // whose projection it is; empty: of no model
  int per_forward = 0;             // how often one forward pass of the model runs it
  bool tied = false;               // the weights may be an embedding's too, so that no layer may take them
};

inline constexpr std::uint64_t kBenchSeed = 1;  // of weights and activations

// A list of models, which stand for their projections, and shapes: "llama-3.2-3b" or "5120x3072,3072x8192".
std::vector<BenchShape> parse_bench_shapes(std::string_view text);
std::vector<std::string_view> bench_models();

struct Times {
  double median;  // seconds
  double fastest;
  double p90;
};
Times summarise(std::vector<double> seconds);

// `work` enqueues on the stream it is given; it runs once for warm-up and once under capture. Returns the seconds of
// each of `repeats` replays.
std::vector<double> time_replays(const kernels::Backend& backend, int repeats,
                                 const std::function<void(void* stream)>& work);

// A plain streaming read of as many bytes as the weights have, from memory that is in no cache.
struct ReadTimes {
  Times times;
  std::size_t bytes;
};

struct Measured {
  std::string numerics;
  std::string implementation;
  Times times;
  std::size_t workspace_bytes;  // transient memory of one call
};

struct BenchRow {
  BenchShape shape;
  std::int64_t m;
  DType weights;
  Measured linear;
  ReadTimes read;
  double peak_gigaflops;  // of binary32 fused multiply-adds, all that the machine has
  std::vector<Measured> baselines;

  double weight_bytes() const;
  double gigabytes_per_second() const;  // of weights, at the median
  double gigaflops() const;
  double read_fraction() const;                     // of the streaming read's bandwidth; 1 is the memory floor
  double fma_fraction() const;                      // of the peak; 1 is the arithmetic floor
  double ratio_to(const Measured& baseline) const;  // above 1: faster than it
};

// The projections of one forward pass, summed: every layer's, and the head's where it was measured at this m.
struct ForwardSum {
  std::string model;
  std::int64_t m;
  int layers;
  bool with_head;
  double linear;                  // seconds
  std::vector<double> baselines;  // in the order of the rows
};
// One per model and m for which every layer's projections are among the rows.
std::vector<ForwardSum> sum_forwards(std::span<const BenchRow> rows);

struct BenchTarget {
  std::string device = "cpu";
  std::string numerics{kDefaultNumerics};
  std::vector<std::string> baselines{};
  bool baselines_may_miss = false;  // a machine without the vendor's library measures without them
  DType weights = DType::kBF16;
  std::optional<Isa> isa = std::nullopt;  // CPU
  int threads = 0;                        // CPU
};

// One place to measure. A row's own times and its baselines' alternate, so that other load hits them alike.
class LinearTimer {
 public:
  virtual ~LinearTimer() = default;
  std::string description() const { return context_.description(); }  // "cpu avx512, 2 threads"
  const std::string& vendor_description() const {
    return vendor_;
  }  // whose library the baselines run, or why none is; empty: none is wanted
  std::vector<std::string> baselines() const;
  // One row per m, each reported as soon as it is known.
  virtual void measure(const BenchShape& shape, std::span<const std::int64_t> ms,
                       const std::function<void(const BenchRow&)>& report) = 0;

 protected:
  LinearTimer(const BenchTarget& target, Context context);  // of the target's numerics

  BenchTarget target_;
  Context context_;
  std::vector<Context> baselines_;

 private:
  std::string vendor_;
};

// The library behind a baseline; empty for a contract, which is computed here. Throws where the library is missing.
std::string vendor_of(const Context& context);

std::unique_ptr<LinearTimer> make_linear_timer(const BenchTarget& target);
// What it makes: by graphs that are replayed, and by calls on threads of this process.
std::unique_ptr<LinearTimer> make_replaying_linear_timer(const BenchTarget& target, Context context);
std::unique_ptr<LinearTimer> make_calling_linear_timer(const BenchTarget& target, Context context);

// The arithmetic floor of a linear layer on the CPU: fused multiply-adds of binary32 and nothing else, on all threads
// of the pool, in the widest registers the machine has, for about a millisecond. Returns how many operations they were,
// two each.
double run_fma_burst(ThreadPool& pool);

// The rows of a benchmark as a figure: time over M, a panel per projection and per whole forward, a line per numerics,
// and the two floors. Rows of several contracts may follow each other; a baseline that was measured beside each is
// drawn once.
Plot plot_linear(std::span<const BenchRow> rows, const std::string& device);

}  // namespace reprofuse::study
