#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "kernels/cpu/machine.hpp"
#include "kernels/cpu/work_split.hpp"

namespace reprofuse::cpu {
namespace {

using int16::kTermBlock;
using kernels::LinearCall;
using kernels::Place;

constexpr std::int64_t kTermsAlignment = 4;  // of packed rows
constexpr std::int64_t kGroupRows = 128;     // a panel's strip is snapped once for so many; 16 KiB of totals

// What a task keeps on its thread's stack.
struct Scratch {
  alignas(kCacheLine) std::byte weights[kTermBlock * kMaxInt16TermBytes];  // a strip of one panel
  alignas(kCacheLine) std::int64_t totals[kGroupRows * kPanel];
  alignas(kCacheLine) float inverses[kPanel];
  alignas(kCacheLine) std::int32_t units[kPanel];
};

class LinearInt16 final : public kernels::PreparedLinear {
 public:
  LinearInt16(const LinearInt16Kernels& kernels, const kernels::CpuTarget& target, std::span<const WeightView> weights)
      : kernels_(kernels), pool_(*target.pool), panels_(weights, target.name, pool_), units_(weight_units()) {}

  std::size_t workspace_bytes(std::int64_t max_m) const override;
  std::optional<Place> run(const LinearCall& call) const override;
  std::string implementation() const override { return std::string(kernels_.target); }

 private:
  // The workspace: every block of rows as strips, the strips of a block together; what is known of each strip of each
  // row, strips outermost; the unit of every row.
  struct Snapped {
    std::byte* blocks;
    Int16Strip* strips;
    std::int32_t* row_units;
    std::int64_t m;
    Int16Strip* strip(std::int64_t k, std::int64_t row) const { return strips + k / kTermBlock * m + row; }
  };
  std::vector<std::uint8_t> weight_units() const;
  std::int64_t strip_count() const { return ceil_div<std::int64_t>(panels_.k(), kTermBlock); }
  std::int64_t packed_row_bytes() const;
  Snapped carve(void* workspace, std::int64_t m) const;
  std::size_t strip_offset(const LinearSchedule& schedule, std::int64_t block, std::int64_t k) const;
  int strip_terms(std::int64_t k) const {
    return static_cast<int>(std::min<std::int64_t>(kTermBlock, panels_.k() - k));
  }

  void snap_block(const ConstMatrix& x, const LinearSchedule& schedule, std::int64_t block, const Snapped& to) const;
  void run_task(const LinearCall& call, const LinearSchedule& schedule, const Snapped& x, std::int64_t task,
                FirstPlace& non_finite) const;
  void multiply_panel(const LinearSchedule& schedule, const Snapped& x, std::int64_t task, std::int64_t panel,
                      Scratch& scratch) const;
  void store_row(const LinearCall& call, int row_unit, const std::int64_t* totals, const std::int32_t* weight_units,
                 std::int64_t row, std::int64_t panel, FirstPlace& non_finite) const;

  const LinearInt16Kernels& kernels_;
  ThreadPool& pool_;
  Panels panels_;
  std::vector<std::uint8_t> units_;  // of each column of each panel
};

std::vector<std::uint8_t> LinearInt16::weight_units() const {
  std::vector<std::uint8_t> units(panels_.columns().size() * kPanel);
  pool_.parallel_for(static_cast<std::int64_t>(panels_.columns().size()), [&](std::int64_t panel, int) {
    const LargestWeights largest = largest_weights(panels_, panel);
    for (int c = 0; c < kPanel; ++c)
      units[static_cast<std::size_t>(panel * kPanel + c)] =
          static_cast<std::uint8_t>(int16::unit_byte(float_bits(largest.of[c])));
  });
  return units;
}

std::int64_t LinearInt16::packed_row_bytes() const {
  return round_up(panels_.k(), kTermsAlignment) * static_cast<std::int64_t>(kernels_.activation_bytes);
}

std::size_t LinearInt16::workspace_bytes(std::int64_t max_m) const {
  if (max_m == 0) return 0;
  const auto row_bytes = packed_row_bytes() + strip_count() * static_cast<std::int64_t>(sizeof(Int16Strip)) +
                         static_cast<std::int64_t>(sizeof(std::int32_t));
  const auto bytes = checked_product(max_m, row_bytes);
  constexpr auto kSlack = static_cast<std::int64_t>(2 * kCacheLine);  // to align the parts
  require(bytes && *bytes <= std::numeric_limits<std::int64_t>::max() - kSlack,
          "a workspace for {} rows of k = {} is larger than any memory", max_m, panels_.k());
  return static_cast<std::size_t>(*bytes + kSlack);
}

LinearInt16::Snapped LinearInt16::carve(void* workspace, std::int64_t m) const {
  const auto aligned = [](std::byte* at) {
    return at + (kCacheLine - reinterpret_cast<std::uintptr_t>(at) % kCacheLine) % kCacheLine;
  };
  std::byte* blocks = aligned(static_cast<std::byte*>(workspace));
  auto* strips = reinterpret_cast<Int16Strip*>(aligned(blocks + m * packed_row_bytes()));
  return {.blocks = blocks,
          .strips = strips,
          .row_units = reinterpret_cast<std::int32_t*>(strips + strip_count() * m),
          .m = m};
}

std::size_t LinearInt16::strip_offset(const LinearSchedule& schedule, std::int64_t block, std::int64_t k) const {
  const std::int64_t before = schedule.row(block) * round_up(panels_.k(), kTermsAlignment) + k * schedule.rows(block);
  return static_cast<std::size_t>(before) * kernels_.activation_bytes;
}

std::optional<Place> LinearInt16::run(const LinearCall& call) const {
  const auto panels = static_cast<std::int64_t>(panels_.columns().size());
  const LinearSchedule schedule = make_linear_schedule(call.x.rows, kernels_.rows, kGroupRows, panels, pool_.threads());
  const Snapped x = carve(call.workspace, call.x.rows);
  pool_.parallel_for(schedule.blocks, [&](std::int64_t block, int) { snap_block(call.x, schedule, block, x); });
  FirstPlace non_finite;
  pool_.parallel_for(schedule.tasks(), [&](std::int64_t task, int) { run_task(call, schedule, x, task, non_finite); });
  return non_finite.get();
}

void LinearInt16::snap_block(const ConstMatrix& x, const LinearSchedule& schedule, std::int64_t block,
                             const Snapped& to) const {
  static constexpr float kZeros[kTermBlock] = {};
  const int rows = schedule.rows(block);
  for (int r = 0; r < rows; ++r) {
    const std::int64_t row = schedule.row(block) + r;
    const float* from = x.data + row * x.stride;
    int row_unit = int16::kMinUnit;
    for (std::int64_t k = 0; k < panels_.k(); k += kTermBlock) {
      const int unit = int16::unit_byte(kernels_.largest_bits(from + k, strip_terms(k)));
      to.strip(k, row)->shift = unit;  // until the row's largest is known
      row_unit = std::max(row_unit, unit);
    }
    const bool finite = row_unit != int16::kNotFinite;
    for (std::int64_t k = 0; k < panels_.k(); k += kTermBlock) {
      Int16Strip& strip = *to.strip(k, row);
      const int unit = finite ? int16::block_unit(strip.shift, row_unit) : row_unit;
      strip.start = kernels_.snap_activations({.x = finite ? from + k : kZeros,
                                               .terms = strip_terms(k),
                                               .inverse = int16::inverse_unit(unit),
                                               .packed = to.blocks + strip_offset(schedule, block, k),
                                               .rows = rows,
                                               .row = r});
      strip.shift = unit - row_unit + int16::kUnitRange;
    }
    to.row_units[row] = row_unit;
  }
}

void LinearInt16::run_task(const LinearCall& call, const LinearSchedule& schedule, const Snapped& x, std::int64_t task,
                           FirstPlace& non_finite) const {
  Scratch scratch;
  const std::int64_t first_row = schedule.row(schedule.block_begin(task));
  const std::int64_t end_row = schedule.row(schedule.block_end(task));
  for (std::int64_t panel = schedule.panel_begin(task); panel < schedule.panel_end(task); ++panel) {
    std::fill_n(scratch.totals, (end_row - first_row) * kPanel, 0);
    multiply_panel(schedule, x, task, panel, scratch);
    for (std::int64_t row = first_row; row < end_row; ++row)
      store_row(call, x.row_units[row], scratch.totals + (row - first_row) * kPanel, scratch.units, row, panel,
                non_finite);
  }
}

// Strips outermost: the panel's weights are snapped once for every block of rows. Few rows take them in registers.
void LinearInt16::multiply_panel(const LinearSchedule& schedule, const Snapped& x, std::int64_t task,
                                 std::int64_t panel, Scratch& scratch) const {
  const LinearInt16Kernels::Weights& weights = kernels_.weights(panels_.dtype());
  const std::int64_t begin = schedule.block_begin(task);
  for (int c = 0; c < kPanel; ++c) {
    scratch.units[c] = units_[static_cast<std::size_t>(panel * kPanel + c)];
    scratch.inverses[c] = int16::inverse_unit(scratch.units[c]);
  }
  for (std::int64_t k = 0; k < panels_.k(); k += kTermBlock) {
    const Int16Weights strip{.words = static_cast<const std::uint32_t*>(panels_.at(panel, k)),
                             .inverses = scratch.inverses,
                             .terms = strip_terms(k)};
    if (schedule.m <= kernels_.few_rows) {
      weights.multiply_few({.weights = strip,
                            .x = x.blocks + strip_offset(schedule, 0, k),
                            .rows = static_cast<int>(schedule.m),
                            .strips = x.strip(k, 0),
                            .totals = scratch.totals});
      continue;
    }
    weights.snap(strip, scratch.weights);
    for (std::int64_t block = begin; block < schedule.block_end(task); ++block)
      kernels_.multiply({.x = x.blocks + strip_offset(schedule, block, k),
                         .weights = scratch.weights,
                         .rows = schedule.rows(block),
                         .terms = strip.terms,
                         .strips = x.strip(k, schedule.row(block)),
                         .totals = scratch.totals + (schedule.row(block) - schedule.row(begin)) * kPanel});
  }
}

void LinearInt16::store_row(const LinearCall& call, int row_unit, const std::int64_t* totals,
                            const std::int32_t* weight_units, std::int64_t row, std::int64_t panel,
                            FirstPlace& non_finite) const {
  alignas(kCacheLine) float results[kPanel];
  if (row_unit != int16::kNotFinite)
    kernels_.round({.totals = totals, .weight_units = weight_units, .row_unit = row_unit, .results = results});
  else
    std::fill_n(results, kPanel, std::numeric_limits<float>::quiet_NaN());
  store_panel_row(call, panels_.columns()[static_cast<std::size_t>(panel)], results, row, non_finite);
}

}  // namespace

const LinearInt16Kernels& best_linear_int16(Isa isa) {
  if (isa == Isa::kScalar) return linear_int16_scalar();
  if (isa == Isa::kAvx512 && machine_has_avx512_vnni() && linear_int16_vnni() != nullptr) return *linear_int16_vnni();
  const LinearInt16Kernels* kernels = linear_int16_simd(isa);
  invariant(kernels != nullptr, "a context holds an instruction set that the build has no kernels for");
  return *kernels;
}

std::unique_ptr<kernels::PreparedLinear> prepare_linear_int16(const LinearInt16Kernels& kernels,
                                                              const kernels::CpuTarget& target,
                                                              std::span<const WeightView> weights) {
  require(weights[0].k <= int16::kMaxTerms,
          "linear '{}': k = {} is more than the {} terms whose sum contract int16-1 can hold", target.name,
          weights[0].k, int16::kMaxTerms);
  return std::make_unique<LinearInt16>(kernels, target, weights);
}

std::unique_ptr<kernels::PreparedLinear> prepare_linear_int16(const kernels::CpuTarget& target,
                                                              std::span<const WeightView> weights) {
  return prepare_linear_int16(best_linear_int16(target.isa), target, weights);
}

}  // namespace reprofuse::cpu
