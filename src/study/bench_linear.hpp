// How fast the linear layer is, beside what the machine and a vendor's library reach in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::study {

struct BenchShape {
  std::string name;  // "qkv", or the shape itself
  std::int64_t n;
  std::int64_t k;
  std::int64_t max_m = INT64_MAX;  // a vocabulary is projected for the tokens that are sampled, not for a prompt
};

// A list of models, which stand for their projections, and shapes: "llama-3.2-3b" or "5120x3072,3072x8192".
std::vector<BenchShape> parse_bench_shapes(std::string_view text);
std::vector<std::string_view> bench_models();

struct Times {
  double median;  // seconds
  double fastest;
  double p90;
};
Times summarise(std::vector<double> seconds);

// A plain streaming read of as many bytes as the weights have, from memory that is in no cache.
struct ReadTimes {
  Times times;
  std::size_t bytes;
};

struct BenchRow {
  BenchShape shape;
  std::int64_t m;
  DType weights;
  std::string numerics;
  std::string implementation;
  Times linear;
  ReadTimes read;
  std::optional<Times> sgemm;  // the vendor's, on a binary32 copy of the weights; none: sgemm_description() says why
  std::optional<Times> bf16 = std::nullopt;  // the vendor's BF16, unmitigated: on CUDA, for BF16 weights

  double weight_bytes() const;
  double gigabytes_per_second() const;  // of weights, at the median
  double gigaflops() const;
  double read_fraction() const;               // of the streaming read's bandwidth; 1 is the memory floor
  std::optional<double> sgemm_ratio() const;  // above 1: faster than SGEMM
  std::optional<double> bf16_ratio() const;
};

// One place to measure. A row's own times and its baselines' are taken in turns, so that they meet the same weather.
class LinearTimer {
 public:
  virtual ~LinearTimer() = default;
  virtual std::string description() const = 0;        // "cpu avx512, 2 threads"
  virtual std::string sgemm_description() const = 0;  // whose SGEMM, or why there is none
  // One row per m, each reported as soon as it is known.
  virtual void measure(const BenchShape& shape, std::span<const std::int64_t> ms,
                       const std::function<void(const BenchRow&)>& report) = 0;
};

struct BenchTarget {
  std::string numerics{kDefaultNumerics};
  DType weights = DType::kBF16;
  std::optional<Isa> isa;  // CPU
  int threads = 0;         // CPU
};

std::unique_ptr<LinearTimer> make_cpu_linear_timer(const BenchTarget& target);
std::unique_ptr<LinearTimer> make_cuda_linear_timer(const BenchTarget& target);

}  // namespace reprofuse::study
