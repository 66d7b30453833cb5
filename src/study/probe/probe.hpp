// The probe: computes the fixed cases of a contract on one implementation, takes the digest of each result's bits and
// compares it with the committed one; then that no row's bits depend on the batch that it is computed in.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "ops/contract.hpp"
#include "study/probe/cases.hpp"
#include "study/probe/linear.hpp"

namespace reprofuse::study {

// 1 to 9, then 2^n - 1, 2^n and 2^n + 1, as far as `max`.
std::vector<std::int64_t> batch_sizes(std::int64_t max);

struct RowDifference {
  DType weights;
  std::int64_t k;
  std::int64_t m;  // the batch in which the row came out differently
  std::int64_t row;
  std::int64_t column;
  std::uint32_t alone;     // the word when the row is computed by itself
  std::uint32_t in_batch;  // and among m rows

  // "bf16 weights, K = 1104, M = 64: row 3 column 17 is 0x3f800001, but 0x3f800000 when the row is computed alone"
  std::string description() const;
};

// Computes every row of x alone, then the first m rows together for each m of `sizes`, and compares the bits.
// The largest size must not exceed x.rows.
std::optional<RowDifference> find_row_difference(HostLinear& layer, DType weights, std::int64_t n, ConstMatrix x,
                                                 std::span<const std::int64_t> sizes);

// The same for each weight type at n = 80 and k = 1104 and 1100, with seeded operands and every size up to
// `max_batch`. on_start, when there is one, is called with the weight type.
std::optional<RowDifference> probe_rows(const PrepareLinear& prepare, std::int64_t max_batch, ThreadPool& pool,
                                        const std::function<void(DType)>& on_start = {});

enum class GoldenVerdict {
  kMatches,
  kDiffers,
  kMissing,        // golden has no such case
  kOtherOperands,  // golden has one of that name with another shape, weight type, bias or seed
};

struct CaseResult {
  ProbeCase spec;
  std::string sha256;
  std::string implementation;
  GoldenVerdict verdict;
  std::string explanation;  // why it does not match; empty when it does
  double seconds;           // making the operands, computing and hashing
};

struct ProbeReport {
  std::vector<CaseResult> cases;
  std::optional<RowDifference> row_difference;

  bool matches_golden() const;
  bool row_invariant() const { return !row_difference.has_value(); }
  // "avx512"; a run whose cases took different kernels is an error
  std::string implementation() const;
  // The first case that differs from golden, or else the row that depends on its batch; empty when all is well.
  std::string first_failure() const;
};

struct ProbeOptions {
  std::vector<ProbeCase> cases;
  std::int64_t max_batch;  // of the row invariance check
  bool explain = false;    // on a difference, find the outputs that differ by computing the reference
};

// Called for each step as it happens; either may be empty.
struct ProbeObserver {
  std::function<void(std::size_t step, std::size_t steps, const std::string& name)> on_start;
  std::function<void(const CaseResult&)> on_result;
};

inline constexpr std::int64_t kMaxBatch = 2049;
inline constexpr std::int64_t kMaxQuickBatch = 65;
// Above so many multiply-adds the reference is too slow to be computed for an explanation.
inline constexpr std::int64_t kReferenceLimit = std::int64_t{1} << 31;

CaseResult probe_case(const Contract& contract, const Golden& golden, const PrepareLinear& prepare,
                      const ProbeCase& spec, bool explain, ThreadPool& pool);

// `prepare` computes, `pool` makes the operands and the reference.
ProbeReport run_probe(const Contract& contract, const Golden& golden, const PrepareLinear& prepare,
                      const ProbeOptions& options, ThreadPool& pool, const ProbeObserver& observer = {});

}  // namespace reprofuse::study
