// The probe: computes the fixed cases of a contract on one implementation, takes the digest of each result's bits and
// compares it with the committed one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "ops/contract.hpp"
#include "study/probe/cases.hpp"
#include "study/probe/golden.hpp"
#include "study/probe/linear.hpp"
#include "study/probe/rows.hpp"

namespace reprofuse::study {

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
  std::int64_t largest_batch;  // of the row invariance check
  bool explain = false;        // on a difference, find the outputs that differ by computing the reference
};

// Told about each step as it happens; either may be empty.
struct ProbeObserver {
  std::function<void(std::size_t step, std::size_t steps, const std::string& name)> on_start;
  std::function<void(const CaseResult&)> on_result;
};

inline constexpr std::int64_t kLargestBatch = 2049;
inline constexpr std::int64_t kLargestQuickBatch = 65;
// Above so many multiply-adds the reference is too slow to be computed for an explanation.
inline constexpr std::int64_t kReferenceLimit = std::int64_t{1} << 31;

CaseResult probe_case(const Contract& contract, const Golden& golden, const PrepareLinear& prepare,
                      const ProbeCase& spec, bool explain, ThreadPool& pool);

// `prepare` computes, `pool` makes the operands and the reference.
ProbeReport run_probe(const Contract& contract, const Golden& golden, const PrepareLinear& prepare,
                      const ProbeOptions& options, ThreadPool& pool, const ProbeObserver& observer = {});

}  // namespace reprofuse::study
