#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "kernels/cpu/machine.hpp"
#include "kernels/cpu/work_split.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::cpu {
namespace {

using int16::kTermBlock;
using kernels::LinearCall;
using kernels::NonFinite;

constexpr std::int64_t kGroupRows = 128;  // a panel's strip stays near for so many; 16 KiB of totals

constexpr std::int64_t kQuadBytes = std::int64_t{kInt16Alignment} * kPanel * 2;  // of weights

// What a task keeps on its thread's stack.
struct Scratch {
  alignas(kCacheLine) std::int64_t totals[kGroupRows * kPanel];
  alignas(kCacheLine) std::int32_t units[kPanel];
  alignas(kCacheLine) std::uint32_t corrections[kMaxInt16Corrections];  // of a strip of one panel
};

// Some terms of a row of weights.
void widen_terms(const WeightView& weight, std::int64_t row, std::int64_t k, std::int64_t count, float* to) {
  const auto widen_all = [&](auto widen_one) {
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = widen_one(load_weight(weight.data, weight.dtype, row * weight.stride + k + i));
  };
  if (weight.dtype == DType::kBF16)
    widen_all(widen_bf16);
  else if (weight.dtype == DType::kF16)
    widen_all(widen_f16);
  else
    widen_all([](std::uint32_t bits) { return float_from_bits(bits); });
}

int unit_of_row(const WeightView& weight, std::int64_t row) {
  float values[kTermBlock];
  std::int32_t largest = 0;  // magnitudes are ordered as their bits are
  for (std::int64_t k = 0; k < weight.k; k += kTermBlock) {
    const std::int64_t count = std::min<std::int64_t>(kTermBlock, weight.k - k);
    widen_terms(weight, row, k, count, values);
    for (std::int64_t i = 0; i < count; ++i)
      largest = std::max(largest, static_cast<std::int32_t>(magnitude_bits(values[i])));
  }
  return int16::unit_byte(static_cast<std::uint32_t>(largest));
}

// Column c of a panel's words.
void pack_row(const WeightView& weight, std::int64_t row, float inverse, std::uint32_t* words) {
  float values[kTermBlock];
  std::uint16_t halves[kTermBlock];
  for (std::int64_t k = 0; k < weight.k; k += kTermBlock) {
    const std::int64_t count = std::min<std::int64_t>(kTermBlock, weight.k - k);
    const std::int64_t padded = round_up<std::int64_t>(count, kInt16Alignment);
    widen_terms(weight, row, k, count, values);
    std::fill(values + count, values + padded, 0.0F);
    for (std::int64_t i = 0; i < padded; ++i)
      halves[i] = static_cast<std::uint16_t>(int16::snap(values[i], inverse) + kInt16WeightOffset);
    for (std::int64_t i = 0; i < padded; i += 2, words += kPanel)
      *words = halves[i] | static_cast<std::uint32_t>(halves[i + 1]) << 16;
  }
}

// Columns past the end of the matrix are W = 0.
bool pack_panel(const WeightView& weight, const PanelColumns& columns, std::uint32_t* words, std::uint8_t* units) {
  constexpr std::uint32_t kZeros = kInt16WeightOffset * 0x10001U;
  std::fill_n(units, kPanel, static_cast<std::uint8_t>(int16::kMinUnit));
  if (columns.columns < kPanel)
    std::fill_n(words, round_up<std::int64_t>(weight.k, kInt16Alignment) / 2 * kPanel, kZeros);
  for (std::int64_t c = 0; c < columns.columns; ++c) {
    const int unit = unit_of_row(weight, columns.column + c);
    if (unit == int16::kNotFinite) return false;
    units[c] = static_cast<std::uint8_t>(unit);
    pack_row(weight, columns.column + c, int16::inverse_unit(unit), words + c);
  }
  return true;
}

class LinearInt16 final : public kernels::PreparedLinear {
 public:
  LinearInt16(const LinearInt16Kernels& kernels, const CpuDevice& device, std::string_view layer,
              std::span<const WeightView> weights)
      : kernels_(kernels),
        pool_(*device.pool),
        units_(static_cast<std::size_t>(Panels::count(weights) * kPanel)),
        panels_(weights, form(), layer, pool_) {}

  std::size_t workspace_bytes(std::int64_t max_m) const override;
  std::optional<NonFinite> run(const LinearCall& call) const override;
  std::string implementation() const override { return std::string(kernels_.target); }

 private:
  // What the tasks of a call share. The pointers lead into its workspace.
  struct Run {
    const LinearInt16Kernels& kernels;
    const LinearCall& call;
    LinearSchedule schedule;
    std::byte* row_blocks;    // x, packed by the kernels: [blocks of rows][strips]
    Int16Strip* strips;       // [strips][m]: one for each strip of each row
    std::int32_t* row_units;  // [m]: of the largest strip of each row
    FirstNonFinite non_finite;
    Int16Strip* strip(std::int64_t k, std::int64_t row) const { return strips + k / kTermBlock * call.x.rows + row; }
  };
  PanelForm form();
  std::int64_t strip_count() const { return ceil_div<std::int64_t>(panels_.k(), kTermBlock); }
  std::int64_t packed_row_bytes(const LinearInt16Kernels& kernels) const {
    return round_up(panels_.k(), kernels.terms_alignment) * static_cast<std::int64_t>(kernels.activation_bytes);
  }
  std::byte* strip_at(const Run& run, std::int64_t row_block, std::int64_t k) const;
  int strip_terms(std::int64_t k) const {
    return static_cast<int>(std::min<std::int64_t>(kTermBlock, panels_.k() - k));
  }

  void snap_row_block(Run& run, std::int64_t row_block) const;
  void run_task(Run& run, std::int64_t task) const;
  void multiply_panel(const Run& run, std::int64_t task, std::int64_t panel, Scratch& scratch) const;
  void store_row(Run& run, const Scratch& scratch, std::int64_t index, std::int64_t row, std::int64_t panel) const;

  const LinearInt16Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<std::uint8_t> units_;  // of each column of each panel
  Panels panels_;
};

PanelForm LinearInt16::form() {
  return {
      .terms_alignment = kInt16Alignment,
      .pack = [this](const WeightView& weight, std::int64_t panel, const PanelColumns& columns, std::uint32_t* words) {
        return pack_panel(weight, columns, words, units_.data() + panel * kPanel);
      }};
}

std::size_t LinearInt16::workspace_bytes(std::int64_t max_m) const {
  if (max_m == 0) return 0;
  const LinearInt16Kernels* fewer = kernels_.for_fewer == nullptr ? &kernels_ : kernels_.for_fewer;
  const auto row_bytes = std::max(packed_row_bytes(kernels_), packed_row_bytes(*fewer)) +
                         strip_count() * static_cast<std::int64_t>(sizeof(Int16Strip)) +
                         static_cast<std::int64_t>(sizeof(std::int32_t));
  const auto bytes = checked_product(max_m, row_bytes);
  constexpr auto kSlack = static_cast<std::int64_t>(2 * kCacheLine);  // to align the parts
  require(bytes && *bytes <= std::numeric_limits<std::int64_t>::max() - kSlack,
          "a workspace for {} rows of k = {} is larger than any memory", max_m, panels_.k());
  return static_cast<std::size_t>(*bytes + kSlack);
}

std::byte* LinearInt16::strip_at(const Run& run, std::int64_t row_block, std::int64_t k) const {
  return run.row_blocks + run.schedule.row(row_block) * packed_row_bytes(run.kernels) +
         k * run.schedule.rows(row_block) * static_cast<std::int64_t>(run.kernels.activation_bytes);
}

std::optional<NonFinite> LinearInt16::run(const LinearCall& call) const {
  const std::int64_t m = call.x.rows;
  const LinearInt16Kernels& kernels = m < kernels_.min_rows ? *kernels_.for_fewer : kernels_;
  const auto aligned = [](std::byte* at) {
    return at + (kCacheLine - reinterpret_cast<std::uintptr_t>(at) % kCacheLine) % kCacheLine;
  };
  std::byte* row_blocks = aligned(static_cast<std::byte*>(call.workspace));
  auto* strips = reinterpret_cast<Int16Strip*>(aligned(row_blocks + m * packed_row_bytes(kernels)));
  Run run{.kernels = kernels,
          .call = call,
          .schedule = make_linear_schedule(m, kernels.rows, kGroupRows,
                                           static_cast<std::int64_t>(panels_.columns().size()), pool_.threads()),
          .row_blocks = row_blocks,
          .strips = strips,
          .row_units = reinterpret_cast<std::int32_t*>(strips + strip_count() * m),
          .non_finite = {}};
  pool_.parallel_for(run.schedule.blocks, [&](std::int64_t row_block, int) { snap_row_block(run, row_block); });
  pool_.parallel_for(run.schedule.tasks(), [&](std::int64_t task, int) { run_task(run, task); });
  return run.non_finite.get();
}

void LinearInt16::snap_row_block(Run& run, std::int64_t row_block) const {
  static constexpr float kZeros[kTermBlock] = {};
  const int rows = run.schedule.rows(row_block);
  for (int r = 0; r < rows; ++r) {
    const std::int64_t row = run.schedule.row(row_block) + r;
    const float* from = run.call.x.data + row * run.call.x.stride;
    int row_unit = int16::kMinUnit;
    for (std::int64_t k = 0; k < panels_.k(); k += kTermBlock) {
      const int unit = int16::unit_byte(run.kernels.largest_bits(from + k, strip_terms(k)));
      run.strip(k, row)->shift = unit;  // until the row's largest is known
      row_unit = std::max(row_unit, unit);
    }
    const bool finite = row_unit != int16::kNotFinite;
    for (std::int64_t k = 0; k < panels_.k(); k += kTermBlock) {
      Int16Strip& strip = *run.strip(k, row);
      const int unit = finite ? int16::block_unit(strip.shift, row_unit) : row_unit;
      strip.start = run.kernels.snap_activations({.x = finite ? from + k : kZeros,
                                                  .terms = strip_terms(k),
                                                  .inverse = int16::inverse_unit(unit),
                                                  .packed = strip_at(run, row_block, k),
                                                  .rows = rows,
                                                  .row = r});
      strip.shift = unit - row_unit + int16::kUnitRange;
    }
    run.row_units[row] = row_unit;
  }
}

void LinearInt16::run_task(Run& run, std::int64_t task) const {
  Scratch scratch;
  const std::int64_t first_row = run.schedule.row(run.schedule.block_begin(task));
  const std::int64_t end_row = run.schedule.row(run.schedule.block_end(task));
  for (std::int64_t panel = run.schedule.panel_begin(task); panel < run.schedule.panel_end(task); ++panel) {
    std::fill_n(scratch.totals, (end_row - first_row) * kPanel, 0);
    std::copy_n(units_.data() + panel * kPanel, kPanel, scratch.units);
    multiply_panel(run, task, panel, scratch);
    for (std::int64_t row = first_row; row < end_row; ++row) store_row(run, scratch, row - first_row, row, panel);
  }
}

// Strips outermost: those of the panel's weights come from memory once for every block of rows.
void LinearInt16::multiply_panel(const Run& run, std::int64_t task, std::int64_t panel, Scratch& scratch) const {
  const std::int64_t first_row = run.schedule.row(run.schedule.block_begin(task));
  const std::int64_t begin = run.schedule.block_begin(task), end = run.schedule.block_end(task);
  for (std::int64_t k = 0; k < panels_.k(); k += kTermBlock) {
    const int terms = round_up(strip_terms(k), kInt16Alignment);
    const std::uint32_t* weights = panels_.at(panel, k);
    if (run.kernels.find_corrections != nullptr) run.kernels.find_corrections(weights, terms, scratch.corrections);
    const auto* next = reinterpret_cast<const std::byte*>(weights + std::ptrdiff_t{terms} / 2 * kPanel);
    const auto next_bytes = static_cast<int>(kQuadBytes / (end - begin));
    for (std::int64_t row_block = begin; row_block < end; ++row_block) {
      const std::int64_t row = run.schedule.row(row_block);
      run.kernels.multiply({.x = strip_at(run, row_block, k),
                            .weights = weights,
                            .rows = run.schedule.rows(row_block),
                            .terms = terms,
                            .strips = run.strip(k, row),
                            .totals = scratch.totals + (row - first_row) * kPanel,
                            .corrections = scratch.corrections,
                            .next = next + (row_block - begin) * next_bytes * terms / kInt16Alignment,
                            .next_bytes = next_bytes});
    }
  }
}

void LinearInt16::store_row(Run& run, const Scratch& scratch, std::int64_t index, std::int64_t row,
                            std::int64_t panel) const {
  alignas(kCacheLine) float results[kPanel];
  if (run.row_units[row] != int16::kNotFinite)
    run.kernels.round({.totals = scratch.totals + index * kPanel,
                       .weight_units = scratch.units,
                       .row_unit = run.row_units[row],
                       .results = results});
  else
    std::fill_n(results, kPanel, std::numeric_limits<float>::quiet_NaN());
  store_panel_row(run.call, panels_.columns()[static_cast<std::size_t>(panel)], results, row, run.non_finite);
}

}  // namespace

std::vector<const LinearInt16Kernels*> linear_int16_tables(Isa isa) {
  if (isa == Isa::kScalar) return {&linear_int16_scalar()};
  std::vector<const LinearInt16Kernels*> tables = {linear_int16_simd(isa)};
  invariant(tables[0] != nullptr, "a context holds an instruction set that the build has no kernels for");
  const auto add = [&](bool machine_has_it, const LinearInt16Kernels* table) {
    if (machine_has_it && table != nullptr) tables.push_back(table);
  };
  if (isa == Isa::kNeon) add(machine_has_neon_dot(), linear_int16_dot());
  if (isa == Isa::kAvx512 && machine_has_avx512_vnni()) {
    const bool adds_beside = machine_adds_beside_products();
    add(!adds_beside, linear_int16_winograd());
    add(true, linear_int16_vnni());
    add(adds_beside, linear_int16_winograd());
    add(machine_has_amx_int8(), linear_int16_amx());  // asking for AMX changes the process
  }
  return tables;
}

std::unique_ptr<kernels::PreparedLinear> prepare_linear_int16(const LinearInt16Kernels& kernels,
                                                              const CpuDevice& device, std::string_view layer,
                                                              std::span<const WeightView> weights) {
  require(weights[0].k <= int16::kMaxTerms,
          "linear '{}': k = {} is more than the {} terms whose sum contract int16-1 can hold", layer, weights[0].k,
          int16::kMaxTerms);
  return std::make_unique<LinearInt16>(kernels, device, layer, weights);
}

}  // namespace reprofuse::cpu
