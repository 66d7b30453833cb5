#include <algorithm>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/cpu/linear/fma1/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "kernels/cpu/work_split.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cpu {
namespace {

using kernels::LinearCall;
using kernels::NonFinite;

constexpr std::int64_t kGroupWidth = std::int64_t{kGroupPanels} * kPanel;
constexpr std::int64_t kTotals = 8192;  // running totals of a task: 32 KiB on its thread's stack
static_assert(kMaxTileRows * kGroupWidth <= kTotals);

// Block b of rows as [k][rows of the block], starting at element row(b) * k: a single row is its own block.
void pack_rows(ConstMatrix x, const LinearSchedule& schedule, float* packed, ThreadPool& pool) {
  const std::int64_t segments = fma1::segment_count(x.cols);
  pool.parallel_for(schedule.blocks * segments, [&](std::int64_t index, int) {
    const std::int64_t block = index / segments;
    const std::int64_t k_begin = index % segments * fma1::kSegment;
    const std::int64_t k_end = std::min(x.cols, k_begin + fma1::kSegment);
    const int rows = schedule.rows(block);
    const float* from = x.data + schedule.row(block) * x.stride;
    float* to = packed + schedule.row(block) * x.cols + k_begin * rows;
    for (std::int64_t k = k_begin; k < k_end; ++k)
      for (int r = 0; r < rows; ++r) *to++ = from[r * x.stride + k];
  });
}

class LinearFma1 final : public kernels::PreparedLinear {
 public:
  LinearFma1(const LinearFma1Kernels& kernels, const CpuDevice& device, std::string_view layer,
             std::span<const WeightView> weights)
      : kernels_(kernels), pool_(*device.pool), panels_(weights, layer, pool_) {}

  std::size_t workspace_bytes(std::int64_t max_m) const override {
    if (max_m <= 1) return 0;
    const auto bytes = checked_product(max_m, panels_.k(), sizeof(float));
    require(bytes.has_value(), "a workspace for {} rows of k = {} is larger than any memory", max_m, panels_.k());
    return static_cast<std::size_t>(*bytes);
  }

  std::optional<NonFinite> run(const LinearCall& call) const override;
  std::string implementation() const override { return std::string(kernels_.target); }

 private:
  void run_task(const LinearCall& call, const LinearSchedule& schedule, const float* x, std::int64_t task,
                FirstNonFinite& non_finite) const;

  const LinearFma1Kernels& kernels_;
  ThreadPool& pool_;
  Panels panels_;
};

std::optional<NonFinite> LinearFma1::run(const LinearCall& call) const {
  const auto panels = static_cast<std::int64_t>(panels_.columns().size());
  const LinearSchedule schedule =
      make_linear_schedule(call.x.rows, kernels_.rows, kTotals / kGroupWidth, panels, pool_.threads());
  const float* x = call.x.data;
  if (call.x.rows > 1) {
    pack_rows(call.x, schedule, static_cast<float*>(call.workspace), pool_);
    x = static_cast<const float*>(call.workspace);
  }
  FirstNonFinite non_finite;
  pool_.parallel_for(schedule.tasks(), [&](std::int64_t task, int) { run_task(call, schedule, x, task, non_finite); });
  return non_finite.get();
}

// Segments outermost: the group's weights of one segment stay in cache while every block of rows passes over them.
void LinearFma1::run_task(const LinearCall& call, const LinearSchedule& schedule, const float* x, std::int64_t task,
                          FirstNonFinite& non_finite) const {
  alignas(64) float totals[kTotals];
  const std::int64_t block_begin = schedule.block_begin(task);
  const std::int64_t block_end = schedule.block_end(task);
  const std::int64_t panel_begin = schedule.panel_begin(task);
  const std::int64_t panel_end = schedule.panel_end(task);
  const std::int64_t first_row = schedule.row(block_begin);
  const SegmentKernel kernel = kernels_.kernel(panels_.dtype());

  for (std::int64_t k = 0; k < panels_.k(); k += fma1::kSegment) {
    for (std::int64_t block = block_begin; block < block_end; ++block) {
      const int rows = schedule.rows(block);
      kernel({.x = x + schedule.row(block) * panels_.k() + k * rows,
              .weights = panels_.at(panel_begin, k),
              .panel_stride = panels_.panel_bytes(),
              .rows = rows,
              .panels = static_cast<int>(panel_end - panel_begin),
              .terms = static_cast<int>(std::min<std::int64_t>(fma1::kSegment, panels_.k() - k)),
              .first = k == 0,
              .totals = totals + (schedule.row(block) - first_row) * kGroupWidth,
              .totals_stride = static_cast<std::size_t>(kGroupWidth)});
      if (k + fma1::kSegment < panels_.k()) continue;
      for (std::int64_t row = schedule.row(block); row < schedule.row(block + 1); ++row)  // while they are near
        for (std::int64_t panel = panel_begin; panel < panel_end; ++panel)
          store_panel_row(call, panels_.columns()[static_cast<std::size_t>(panel)],
                          totals + (row - first_row) * kGroupWidth + (panel - panel_begin) * kPanel, row, non_finite);
    }
  }
}

}  // namespace

const LinearFma1Kernels* compiled_linear_fma1(Isa isa) {
  return isa == Isa::kScalar ? &linear_fma1_scalar() : linear_fma1_simd(isa);
}

std::vector<const LinearFma1Kernels*> linear_fma1_tables(Isa isa) {
  const LinearFma1Kernels* kernels = compiled_linear_fma1(isa);
  invariant(kernels != nullptr, "a context holds an instruction set that the build has no kernels for");
  return {kernels};
}

std::unique_ptr<kernels::PreparedLinear> prepare_linear_fma1(const LinearFma1Kernels& kernels, const CpuDevice& device,
                                                             std::string_view layer,
                                                             std::span<const WeightView> weights) {
  return std::make_unique<LinearFma1>(kernels, device, layer, weights);
}

}  // namespace reprofuse::cpu
