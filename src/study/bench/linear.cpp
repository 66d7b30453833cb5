#include "study/bench/linear.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "base/check.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kHeadRows = 64;  // the largest decode batch that projects to a vocabulary here

// Layers, hidden size, query and key-value widths, MLP width and vocabulary, from the models' published configurations.
struct Model {
  std::string_view name;
  int layers;
  std::int64_t hidden, queries, key_values, mlp, vocabulary;
};
constexpr Model kModels[] = {
    {"llama-3.2-3b", 28, 3072, 3072, 1024, 8192, 128256},
    {"qwen3-4b", 36, 2560, 4096, 1024, 9728, 151936},
    {"llama-8b", 32, 4096, 4096, 1024, 14336, 128256},
    {"qwen3-14b", 40, 5120, 5120, 1024, 17408, 151936},
};
constexpr std::string_view kHead = "lm_head";
constexpr std::size_t kLayerProjections = 4;

std::vector<BenchShape> projections(const Model& model) {
  const std::string name(model.name);
  return {{"qkv", model.queries + 2 * model.key_values, model.hidden, INT64_MAX, name, model.layers},
          {"o", model.hidden, model.queries, INT64_MAX, name, model.layers},
          {"gate_up", 2 * model.mlp, model.hidden, INT64_MAX, name, model.layers},
          {"down", model.hidden, model.mlp, INT64_MAX, name, model.layers},
          {std::string(kHead), model.vocabulary, model.hidden, kHeadRows, name, 1, true}};
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

std::optional<BenchShape> parse_shape(std::string_view text) {
  const auto cross = text.find('x');
  if (cross == std::string_view::npos) return std::nullopt;
  const auto n = parse_size(text.substr(0, cross));
  const auto k = parse_size(text.substr(cross + 1));
  if (!n || !k) return std::nullopt;
  return BenchShape{std::string(text), *n, *k};
}

}  // namespace

std::vector<std::string_view> bench_models() {
  std::vector<std::string_view> names;
  for (const Model& model : kModels) names.push_back(model.name);
  return names;
}

std::vector<BenchShape> parse_bench_shapes(std::string_view text) {
  std::vector<BenchShape> shapes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const auto* model =
        std::find_if(std::begin(kModels), std::end(kModels), [&](const Model& m) { return m.name == item; });
    const auto shape = parse_shape(item);
    require(model != std::end(kModels) || shape, "shapes '{}': '{}' is neither NxK nor one of the models {}", text,
            item, fmt::join(bench_models(), ", "));
    if (shape)
      shapes.push_back(*shape);
    else
      for (BenchShape& projection : projections(*model)) shapes.push_back(std::move(projection));
    begin = end + 1;
  }
  return shapes;
}

Times summarise(std::vector<double> seconds) {
  invariant(!seconds.empty(), "nothing was timed");
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds[seconds.size() * 9 / 10]};
}

std::vector<double> time_replays(const kernels::Backend& backend, int repeats, const std::function<void(void*)>& work) {
  constexpr int kWarmUps = 3;
  const auto stream = backend.make_stream();
  work(stream->handle());
  stream->synchronize();
  const auto graph = backend.capture(work);
  for (int i = 0; i < kWarmUps; ++i) graph->replay(stream->handle());
  const auto begin = backend.make_event(), end = backend.make_event();
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    begin->record(stream->handle());
    graph->replay(stream->handle());
    end->record(stream->handle());
    end->synchronize();
    seconds.push_back(end->seconds_since(*begin));
  }
  return seconds;
}

double BenchRow::weight_bytes() const {
  return static_cast<double>(shape.n) * static_cast<double>(shape.k) * static_cast<double>(dtype_bytes(weights));
}

double BenchRow::gigabytes_per_second() const {
  return weight_bytes() / linear.times.median * 1e-9;
}

double BenchRow::gigaflops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) /
         linear.times.median * 1e-9;
}

double BenchRow::read_fraction() const {
  return gigabytes_per_second() / (static_cast<double>(read.bytes) / read.times.median * 1e-9);
}

double BenchRow::fma_fraction() const {
  return gigaflops() / peak_gigaflops;
}

double BenchRow::ratio_to(const Measured& baseline) const {
  return baseline.times.median / linear.times.median;
}

std::vector<ForwardSum> sum_forwards(std::span<const BenchRow> rows) {
  std::vector<ForwardSum> sums;
  std::vector<std::size_t> projections_found;
  for (const BenchRow& row : rows) {
    if (row.shape.model.empty()) continue;
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const ForwardSum& known) {
      return known.model == row.shape.model && known.m == row.m;
    });
    if (sum == sums.end()) {
      sums.push_back({row.shape.model, row.m, 0, false, 0.0, std::vector<double>(row.baselines.size(), 0.0)});
      projections_found.push_back(0);
      sum = std::prev(sums.end());
    }
    if (row.shape.name == kHead) {
      sum->with_head = true;
    } else {
      sum->layers = row.shape.per_forward;
      ++projections_found[static_cast<std::size_t>(sum - sums.begin())];
    }
    sum->linear += row.shape.per_forward * row.linear.times.median;
    for (std::size_t b = 0; b < row.baselines.size(); ++b)
      sum->baselines[b] += row.shape.per_forward * row.baselines[b].times.median;
  }
  std::vector<ForwardSum> complete;
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (projections_found[i] == kLayerProjections) complete.push_back(std::move(sums[i]));
  return complete;
}

std::string vendor_of(const Context& context) {
  const ContextState& state = context.state();
  return state.backend->library_of(*state.numerics->linear);
}

LinearTimer::LinearTimer(const BenchTarget& target, Context context)
    : target_(target), context_(std::move(context)), vendor_(vendor_of(context_)) {
  try {
    std::vector<Context> baselines;
    for (const std::string& name : target.baselines) {
      baselines.push_back(Context::open(target.device, name, target.isa, target.threads));
      if (vendor_.empty()) vendor_ = vendor_of(baselines.back());
    }
    baselines_ = std::move(baselines);
  } catch (const Error& error) {
    if (!target.baselines_may_miss) throw;
    vendor_ = error.what();
  }
}

std::vector<std::string> LinearTimer::baselines() const {
  std::vector<std::string> names;
  for (const Context& baseline : baselines_) names.emplace_back(baseline.numerics());
  return names;
}

std::unique_ptr<LinearTimer> make_linear_timer(const BenchTarget& target) {
  Context context = Context::open(target.device, target.numerics, target.isa, target.threads);
  return context.state().backend->capabilities().graphs ? make_replaying_linear_timer(target, std::move(context))
                                                        : make_calling_linear_timer(target, std::move(context));
}

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
