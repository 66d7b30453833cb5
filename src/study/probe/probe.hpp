// The probe: computes the fixed cases of a contract on one implementation, takes the digest of each result's bits and
// compares it with the committed one; then that no row's bits depend on the batch that it is computed in.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "ops/contract.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"
#include "study/seeded/inputs.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::study {

// Where two results differ, for a person to look at: how many, the first place, both words.
struct BitDifference {
  std::int64_t count;  // values whose bits differ
  std::int64_t total;
  std::int64_t row;  // of the first of them, by row and then column
  std::int64_t column;
  std::uint32_t got;
  std::uint32_t expected;

  // "3 of 640 values differ, the first at row 2 column 17: 0x3f800001, expected 0x3f800000"
  std::string description() const {
    return fmt::format("{} of {} values differ, the first at row {} column {}: {:#010x}, expected {:#010x}", count,
                       total, row, column, got, expected);
  }
};

// By bits: +0 and -0 differ, equal NaNs do not. The shapes must agree; nullopt when every word does.
inline std::optional<BitDifference> first_difference(ConstMatrix got, ConstMatrix expected) {
  require(got.rows == expected.rows && got.cols == expected.cols, "cannot compare {} x {} with {} x {}", got.rows,
          got.cols, expected.rows, expected.cols);
  std::optional<BitDifference> first;
  for (std::int64_t row = 0; row < got.rows; ++row) {
    for (std::int64_t column = 0; column < got.cols; ++column) {
      const auto a = std::bit_cast<std::uint32_t>(got.data[row * got.stride + column]);
      const auto b = std::bit_cast<std::uint32_t>(expected.data[row * expected.stride + column]);
      if (a == b) continue;
      if (!first) first = BitDifference{0, got.rows * got.cols, row, column, a, b};
      ++first->count;
    }
  }
  return first;
}

// A linear layer over host operands, wherever it is computed, so that a study can be run on kernels, on the reference
// and, to prove that it can fail, on a deliberately wrong order.
class HostLinear {
 public:
  virtual ~HostLinear() = default;
  virtual void run(ConstMatrix x, const float* bias, Matrix y) = 0;  // bias may be null
  virtual std::string implementation() const = 0;                    // what really ran: "avx512", "cuda sm_90"
};

// Makes a layer ready for batches of up to max_m rows. The weights must outlive the layer.
using PrepareLinear = std::function<std::unique_ptr<HostLinear>(const WeightView& weight, std::int64_t max_m)>;

// The context's kernels; on CUDA the operands are copied to the device and the results back.
PrepareLinear kernels_of(const Context& context);

// The loops that define the contract's bits, the rows of x shared out over `pool`. The pool must outlive the layers.
PrepareLinear reference_of(const Numerics& contract, ThreadPool& pool);

// What the probe computes: fixed shapes with fixed seeds, and the digests committed for them in golden/. A case once
// released never changes.
struct ProbeCase {
  std::string name;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  DType weights;
  bool bias;
  std::uint64_t seed;  // of x; the weights take seed + 1, the bias seed + 2

  std::int64_t multiply_adds() const { return m * n * k; }
  bool operator==(const ProbeCase&) const = default;
};

// The seven kinds of case first (decode and prefill in each weight type, ragged), then the nine ablation shapes.
std::vector<ProbeCase> all_probe_cases();
std::vector<ProbeCase> quick_probe_cases();  // the seven kinds

// The cases whose name matches one of `patterns` (shell globs), in their order. A pattern without a case is an error.
std::vector<ProbeCase> select_cases(std::span<const ProbeCase> cases, std::span<const std::string> patterns);

struct Operands {
  std::vector<float> x;  // [m, k]
  Weights weight;        // [n, k]
  std::vector<float> b;  // [n], or empty

  ConstMatrix x_view(std::int64_t rows) const { return {x.data(), rows, weight.k, weight.k}; }
  const float* bias() const { return b.empty() ? nullptr : b.data(); }
};

Operands make_operands(const ProbeCase& spec, ThreadPool& pool);

// The committed digests of a contract's probe cases, as golden/<contract>.json holds them.
struct GoldenCase {
  ProbeCase spec;
  std::string sha256;
};

struct Golden {
  std::string contract;
  std::vector<GoldenCase> cases;

  const GoldenCase* find(std::string_view name) const;  // null: not there
};

// `origin` names the text in error messages: a file, or "the built-in golden digests".
Golden parse_golden(std::string_view json, std::string_view origin);
Golden read_golden(const std::string& path);

// One case per line, so that a diff shows which one moved.
std::string to_json(const Golden& golden);

// The digests of a contract never change, so a file of them is never overwritten.
void require_new_file(const std::string& path);
void write_golden(const std::string& path, const Golden& golden);

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

inline constexpr std::int64_t kMaxProbeRows = 2049;
inline constexpr std::int64_t kMaxQuickProbeRows = 65;
// Above so many multiply-adds the reference is too slow to be computed for an explanation.
inline constexpr std::int64_t kReferenceLimit = std::int64_t{1} << 31;

CaseResult probe_case(const Numerics& contract, const Golden& golden, const PrepareLinear& prepare,
                      const ProbeCase& spec, bool explain, ThreadPool& pool);

// `prepare` computes, `pool` makes the operands and the reference.
ProbeReport run_probe(const Numerics& contract, const Golden& golden, const PrepareLinear& prepare,
                      const ProbeOptions& options, ThreadPool& pool, const ProbeObserver& observer = {});

// The probe's second part: whole models with seeded weights, their digests, and that no way of computing changes a bit.

// Digests by name of the case.
using ModelGolden = std::map<std::string, std::string, std::less<>>;

// Of one contract, from golden/models.json; empty text: the digests built in. A draft has none. Throws kInvalidArgument
// where the text is not such a file.
ModelGolden parse_model_golden(std::string_view json, std::string_view contract);

struct ModelProbeResult {
  std::string name;
  std::string digest;
  bool golden = false;     // equals the committed digest
  std::string difference;  // the first way of computing that gave other bits; empty: none did
  double seconds = 0.0;

  bool passed() const { return golden && difference.empty(); }
};

// The ways in which the probe computes each text: in one pass, token by token, in chunks, on small pages, beside
// others.
std::vector<PassPlan> probe_plans(bool quick);
std::string to_string(const PassPlan& plan);

// The digest of the first plan, compared with `golden` and with the digests of the other plans.
ModelProbeResult probe_model(const Context& context, const ModelCase& spec, const ModelGolden& golden,
                             const std::vector<PassPlan>& plans);

// The committed digests of golden/, carried in the binary.
// The content of golden/NAME.json. Throws kUnsupported when there is no such file.
std::string_view golden_file(std::string_view name);

}  // namespace reprofuse::study
