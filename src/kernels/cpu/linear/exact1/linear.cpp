#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "kernels/cpu/linear/exact1/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "kernels/cpu/machine.hpp"
#include "kernels/cpu/work_split.hpp"
#include "numerics/exact1.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::cpu {
namespace {

using kernels::LinearCall;
using kernels::NonFinite;

// The exponent that contract exact-1 gives each row of the weights, in a byte of its own.
class RowExponents {
 public:
  RowExponents(const Panels& panels, ThreadPool& pool);

  // Of the row that is column c of a panel.
  int at(std::int64_t panel, int c) const {
    return bytes_[static_cast<std::size_t>(panel * kPanel + c)] + exact1::kMinExponent;
  }

 private:
  std::vector<std::uint8_t> bytes_;  // above kMinExponent; binary32 has 232 of them
};

RowExponents::RowExponents(const Panels& panels, ThreadPool& pool) : bytes_(panels.columns().size() * kPanel) {
  pool.parallel_for(static_cast<std::int64_t>(panels.columns().size()), [&](std::int64_t panel, int) {
    const LargestWeights largest = largest_weights(panels, panel);
    for (int c = 0; c < kPanel; ++c) {
      const int exponent = exact1::weight_exponent(float_bits(largest.of[c]));
      bytes_[static_cast<std::size_t>(panel * kPanel + c)] = static_cast<std::uint8_t>(exponent - exact1::kMinExponent);
    }
  });
}

constexpr std::int64_t kTermsAlignment = 4;  // of packed rows
constexpr std::int64_t kGroupRows = 128;     // a panel's strip is snapped once for so many; 16 KiB of totals

// What a task keeps on its thread's stack.
struct Scratch {
  alignas(kCacheLine) std::byte weights[kMaxExactStripBytes];  // a strip of one panel
  alignas(kCacheLine) std::int64_t totals[kGroupRows * kPanel];
  alignas(kCacheLine) float scales[kPanel];
  alignas(kCacheLine) std::int32_t exponents[kPanel];
};

// What is known of a row of x once it is snapped.
struct RowFacts {
  std::int64_t sum;  // of its integers
  int exponent;
  bool finite;  // otherwise it is packed as zeros, and its results are NaN
};

class LinearExact1 final : public kernels::PreparedLinear {
 public:
  LinearExact1(const LinearExact1Kernels& kernels, const CpuDevice& device, std::string_view layer,
               std::span<const WeightView> weights)
      : kernels_(kernels), pool_(*device.pool), panels_(weights, layer, pool_), exponents_(panels_, pool_) {}

  std::size_t workspace_bytes(std::int64_t max_m) const override;
  std::optional<NonFinite> run(const LinearCall& call) const override;
  std::string implementation() const override { return std::string(kernels_.target); }

 private:
  // The workspace: facts of every row, then every block of rows as strips, the strips of a block together.
  struct Snapped {
    RowFacts* facts;
    std::byte* blocks;
  };
  Snapped carve(void* workspace, std::int64_t m) const;
  std::size_t strip_offset(const LinearSchedule& schedule, std::int64_t block, std::int64_t k) const;
  int strip_terms(std::int64_t k) const {
    return static_cast<int>(std::min<std::int64_t>(kernels_.terms, panels_.k() - k));
  }

  void snap_block(const ConstMatrix& x, const LinearSchedule& schedule, std::int64_t block, const Snapped& to) const;
  void run_task(const LinearCall& call, const LinearSchedule& schedule, const Snapped& x, std::int64_t task,
                FirstNonFinite& non_finite) const;
  void multiply_panel(const LinearSchedule& schedule, const Snapped& x, std::int64_t task, std::int64_t panel,
                      Scratch& scratch) const;
  void store_row(const LinearCall& call, const RowFacts& facts, const std::int64_t* totals,
                 const std::int32_t* exponents, std::int64_t row, std::int64_t panel, FirstNonFinite& non_finite) const;

  const LinearExact1Kernels& kernels_;
  ThreadPool& pool_;
  Panels panels_;
  RowExponents exponents_;  // of each column of each panel
};

std::size_t LinearExact1::workspace_bytes(std::int64_t max_m) const {
  if (max_m == 0) return 0;
  const std::int64_t terms = round_up(panels_.k(), kTermsAlignment);
  const auto row_bytes = [&](std::size_t term_bytes) {
    return static_cast<std::int64_t>(sizeof(RowFacts) + static_cast<std::size_t>(terms) * term_bytes);
  };
  auto bytes = checked_product(max_m, row_bytes(kernels_.activation_bytes));
  if (bytes) bytes = std::max(*bytes, row_bytes(kernels_.row_bytes));
  constexpr auto kSlack = static_cast<std::int64_t>(2 * kCacheLine);  // to align both parts
  require(bytes && *bytes <= std::numeric_limits<std::int64_t>::max() - kSlack,
          "a workspace for {} rows of k = {} is larger than any memory", max_m, panels_.k());
  return static_cast<std::size_t>(*bytes + kSlack);
}

LinearExact1::Snapped LinearExact1::carve(void* workspace, std::int64_t m) const {
  const auto aligned = [](std::byte* at) {
    return at + (kCacheLine - reinterpret_cast<std::uintptr_t>(at) % kCacheLine) % kCacheLine;
  };
  std::byte* facts = aligned(static_cast<std::byte*>(workspace));
  return {reinterpret_cast<RowFacts*>(facts), aligned(facts + static_cast<std::size_t>(m) * sizeof(RowFacts))};
}

std::size_t LinearExact1::strip_offset(const LinearSchedule& schedule, std::int64_t block, std::int64_t k) const {
  const std::int64_t before = schedule.row(block) * round_up(panels_.k(), kTermsAlignment) + k * schedule.rows(block);
  return static_cast<std::size_t>(before) * (schedule.m == 1 ? kernels_.row_bytes : kernels_.activation_bytes);
}

std::optional<NonFinite> LinearExact1::run(const LinearCall& call) const {
  const auto panels = static_cast<std::int64_t>(panels_.columns().size());
  const LinearSchedule schedule = make_linear_schedule(call.x.rows, kernels_.rows, kGroupRows, panels, pool_.threads());
  const Snapped x = carve(call.workspace, call.x.rows);
  pool_.parallel_for(schedule.blocks, [&](std::int64_t block, int) { snap_block(call.x, schedule, block, x); });
  FirstNonFinite non_finite;
  pool_.parallel_for(schedule.tasks(), [&](std::int64_t task, int) { run_task(call, schedule, x, task, non_finite); });
  return non_finite.get();
}

void LinearExact1::snap_block(const ConstMatrix& x, const LinearSchedule& schedule, std::int64_t block,
                              const Snapped& to) const {
  static constexpr float kZeros[kMaxExactTerms] = {};
  const int rows = schedule.rows(block);
  for (int r = 0; r < rows; ++r) {
    const std::int64_t row = schedule.row(block) + r;
    const float* from = x.data + row * x.stride;
    const std::uint32_t largest = kernels_.largest_bits(from, panels_.k());
    const bool finite = is_finite_bits(float_from_bits(largest));
    const int exponent = finite ? exact1::activation_exponent(largest) : 0;
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < panels_.k(); k += kernels_.terms)
      sum += kernels_.snap_activations({.x = finite ? from + k : kZeros,
                                        .terms = strip_terms(k),
                                        .scale = exact1::activation_scale(exponent),
                                        .packed = to.blocks + strip_offset(schedule, block, k),
                                        .rows = rows,
                                        .row = r});
    to.facts[row] = {.sum = sum, .exponent = exponent, .finite = finite};
  }
}

void LinearExact1::run_task(const LinearCall& call, const LinearSchedule& schedule, const Snapped& x, std::int64_t task,
                            FirstNonFinite& non_finite) const {
  Scratch scratch;
  const std::int64_t first_row = schedule.row(schedule.block_begin(task));
  const std::int64_t end_row = schedule.row(schedule.block_end(task));
  for (std::int64_t panel = schedule.panel_begin(task); panel < schedule.panel_end(task); ++panel) {
    for (std::int64_t row = first_row; row < end_row; ++row)
      std::fill_n(scratch.totals + (row - first_row) * kPanel, kPanel, -kernels_.weight_bias * x.facts[row].sum);
    multiply_panel(schedule, x, task, panel, scratch);
    for (std::int64_t row = first_row; row < end_row; ++row)
      store_row(call, x.facts[row], scratch.totals + (row - first_row) * kPanel, scratch.exponents, row, panel,
                non_finite);
  }
}

// Strips outermost: the panel's weights are snapped once for every block of rows. Few rows take them in registers.
void LinearExact1::multiply_panel(const LinearSchedule& schedule, const Snapped& x, std::int64_t task,
                                  std::int64_t panel, Scratch& scratch) const {
  const LinearExact1Kernels::Weights& weights = kernels_.weights(panels_.dtype());
  const std::int64_t begin = schedule.block_begin(task);
  for (int c = 0; c < kPanel; ++c) {
    scratch.exponents[c] = exponents_.at(panel, c);
    scratch.scales[c] = exact1::weight_scale(scratch.exponents[c]);
  }
  for (std::int64_t k = 0; k < panels_.k(); k += kernels_.terms) {
    const WeightStrip strip{.words = panels_.at(panel, k), .scales = scratch.scales, .terms = strip_terms(k)};
    if (schedule.m <= kernels_.few_rows) {
      weights.multiply_few({.weights = strip,
                            .x = x.blocks + strip_offset(schedule, 0, k),
                            .rows = static_cast<int>(schedule.m),
                            .totals = scratch.totals});
      continue;
    }
    weights.snap(strip, scratch.weights);
    for (std::int64_t block = begin; block < schedule.block_end(task); ++block)
      kernels_.multiply({.x = x.blocks + strip_offset(schedule, block, k),
                         .weights = scratch.weights,
                         .rows = schedule.rows(block),
                         .terms = strip.terms,
                         .totals = scratch.totals + (schedule.row(block) - schedule.row(begin)) * kPanel});
  }
}

void LinearExact1::store_row(const LinearCall& call, const RowFacts& facts, const std::int64_t* totals,
                             const std::int32_t* exponents, std::int64_t row, std::int64_t panel,
                             FirstNonFinite& non_finite) const {
  alignas(kCacheLine) float results[kPanel];
  if (facts.finite)
    kernels_.round(
        {.totals = totals, .weight_exponents = exponents, .activation_exponent = facts.exponent, .results = results});
  else
    std::fill_n(results, kPanel, std::numeric_limits<float>::quiet_NaN());
  store_panel_row(call, panels_.columns()[static_cast<std::size_t>(panel)], results, row, non_finite);
}

}  // namespace

std::vector<const LinearExact1Kernels*> linear_exact1_tables(Isa isa) {
  if (isa == Isa::kScalar) return {&linear_exact1_scalar()};
  std::vector<const LinearExact1Kernels*> tables = {linear_exact1_simd(isa)};
  invariant(tables[0] != nullptr, "a context holds an instruction set that the build has no kernels for");
  if (isa == Isa::kAvx512 && machine_has_avx512_vnni() && linear_exact1_vnni() != nullptr)
    tables.push_back(linear_exact1_vnni());
  return tables;
}

std::unique_ptr<kernels::PreparedLinear> prepare_linear_exact1(const LinearExact1Kernels& kernels,
                                                               const CpuDevice& device, std::string_view layer,
                                                               std::span<const WeightView> weights) {
  require(weights[0].k <= exact1::kMaxTerms,
          "linear '{}': k = {} is more than the {} terms whose sum contract exact-1 can hold", layer, weights[0].k,
          exact1::kMaxTerms);
  return std::make_unique<LinearExact1>(kernels, device, layer, weights);
}

}  // namespace reprofuse::cpu
