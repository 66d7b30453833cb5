#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "study/bench/linear.hpp"

namespace reprofuse::study {
namespace {

constexpr double kMicroseconds = 1e6;
constexpr const char* kMemoryFloor = "memory floor";
constexpr const char* kFmaFloor = "FMA floor";

// Of a shape, whatever the row: the weights are read once, at the best rate that any of its rows saw.
double memory_floor(std::span<const BenchRow> rows, const BenchShape& shape) {
  double least = std::numeric_limits<double>::infinity();
  for (const BenchRow& row : rows)
    if (row.shape.n == shape.n && row.shape.k == shape.k)
      least = std::min(least, row.linear.times.median * row.read_fraction());
  return least;
}
double fma_floor(const BenchRow& row) {
  return row.linear.times.median * row.fma_fraction();
}

// Adds a point unless the line has one there already; seconds of a forward's parts are summed by the caller.
void add_point(PlotPanel& panel, const std::string& name, bool is_floor, std::int64_t m, double seconds) {
  auto line = std::find_if(panel.lines.begin(), panel.lines.end(), [&](const PlotLine& l) { return l.name == name; });
  if (line == panel.lines.end()) line = panel.lines.insert(line, {name, {}, is_floor});
  const auto x = static_cast<double>(m);
  const auto at = std::find_if(line->points.begin(), line->points.end(), [&](const PlotPoint& p) { return p.x >= x; });
  if (at == line->points.end() || at->x != x) line->points.insert(at, {x, seconds * kMicroseconds});
}

PlotPanel& panel_of(Plot& plot, const std::string& title) {
  const auto found =
      std::find_if(plot.panels.begin(), plot.panels.end(), [&](const PlotPanel& p) { return p.title == title; });
  if (found != plot.panels.end()) return *found;
  return plot.panels.emplace_back(PlotPanel{title, {}});
}

std::string title_of(const BenchShape& shape) {
  const std::string size = fmt::format("{} x {}", shape.n, shape.k);
  return shape.model.empty() ? size : fmt::format("{} {}: {}", shape.model, shape.name, size);
}

// Rows of one contract: those that sum_forwards() can add up.
void add_forwards(Plot& plot, std::span<const BenchRow> rows) {
  for (const ForwardSum& sum : sum_forwards(rows)) {
    PlotPanel& panel = panel_of(
        plot, fmt::format("{}: {} layers{}", sum.model, sum.layers, sum.with_head ? " and head" : ", no head"));
    double memory = 0, fma = 0;
    const BenchRow* any = nullptr;
    for (const BenchRow& row : rows) {
      if (row.shape.model != sum.model || row.m != sum.m) continue;
      memory += row.shape.per_forward * memory_floor(rows, row.shape);
      fma += row.shape.per_forward * fma_floor(row);
      any = &row;
    }
    add_point(panel, any->linear.numerics, false, sum.m, sum.linear);
    for (std::size_t b = 0; b < sum.baselines.size(); ++b)
      add_point(panel, any->baselines[b].numerics, false, sum.m, sum.baselines[b]);
    add_point(panel, kMemoryFloor, true, sum.m, memory);
    add_point(panel, kFmaFloor, true, sum.m, fma);
  }
}

}  // namespace

Plot plot_linear(std::span<const BenchRow> rows, const std::string& device) {
  Plot plot{.title = fmt::format("Linear layers on {}", device),
            .x_label = "M, rows of x",
            .y_label = "time per call, µs",
            .panels = {}};
  for (const BenchRow& row : rows) {
    PlotPanel& panel = panel_of(plot, title_of(row.shape));
    add_point(panel, row.linear.numerics, false, row.m, row.linear.times.median);
    for (const Measured& baseline : row.baselines)
      add_point(panel, baseline.numerics, false, row.m, baseline.times.median);
    add_point(panel, kMemoryFloor, true, row.m, memory_floor(rows, row.shape));
    add_point(panel, kFmaFloor, true, row.m, fma_floor(row));
  }
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    while (end < rows.size() && rows[end].linear.numerics == rows[begin].linear.numerics) ++end;
    add_forwards(plot, rows.subspan(begin, end - begin));
  }
  return plot;
}

}  // namespace reprofuse::study
