#include <algorithm>
#include <chrono>
#include <limits>

#include "base/check.hpp"
#include "kernels/vendor/libraries.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/linear.hpp"
#include "study/ablation/ablate.hpp"
#include "study/ablation/kernels/linear.hpp"

namespace reprofuse::study {
namespace {

constexpr int kTimedRuns = 5;
constexpr int kOtherThreadCounts[] = {1, 2, 3, 5};
// Tiles of the CPU's size: 18 of them, as a GPU has.
constexpr int kTileRows[] = {8, 16, 32}, kTileColumns[] = {32, 64, 128}, kTileTerms[] = {16, 32};
constexpr int kStandInMultiprocessors = 132;

struct Operands {
  std::vector<float> x;  // [max_m, k]
  Weights weights;       // [columns, k]
};

// A layer of some context and its scratch.
class PreparedLayer {
 public:
  PreparedLayer(const Context& context, const WeightView& view, std::int64_t max_m)
      : layer_(context, std::span(&view, 1), "ablation"), workspace_(context, layer_.workspace_bytes(max_m)) {}

  void run(ConstMatrix x, Matrix y) const {
    const LinearOutput output{.y = y};
    layer_.run(x, std::span(&output, 1), workspace_);
  }

 private:
  LinearLayer layer_;
  Workspace workspace_;
};

class CpuCase final : public LoadedCase {
 public:
  CpuCase(AblationCase shape, std::int64_t rows, Operands operands, const Context& context,
          const std::vector<Context>& schedules, const Context* sgemm)
      : LoadedCase(std::move(shape)),
        rows_(rows),
        operands_(std::move(operands)),
        max_m_(static_cast<std::int64_t>(operands_.x.size()) / operands_.weights.k),
        schedules_(schedules),
        shipped_(context, operands_.weights.view(), max_m_),
        ablated_(operands_.weights.view(), context.isa(), context.state().backend->required_pool()) {
    if (sgemm != nullptr) sgemm_ = std::make_unique<PreparedLayer>(*sgemm, operands_.weights.view(), max_m_);
  }

  std::int64_t rows() const override { return rows_; }
  std::int64_t columns() const override { return operands_.weights.n; }
  ConstMatrix x() const override { return first_rows(max_m_); }
  WeightView weight() const override { return operands_.weights.view(); }

  std::vector<float> run(const Method& method, std::int64_t m) override {
    std::vector<float> y(static_cast<std::size_t>(m * columns()));
    run_into(method, m, y);
    return y;
  }

  double seconds(const Method& method, std::int64_t m) override { return fastest_of(kTimedRuns, method, m); }

  double glance(const Method& method, std::int64_t m) override { return fastest_of(1, method, m); }

  std::vector<float> reference(std::int64_t m) override {
    std::vector<float> y(static_cast<std::size_t>(m * columns()));
    find_contract(kDefaultNumerics)
        .linear->reference(first_rows(m), operands_.weights.view(), nullptr, {y.data(), m, columns(), columns()});
    return y;
  }

  std::vector<std::string> schedules(std::int64_t) override {
    std::vector<std::string> names;
    for (const Context& context : schedules_) names.push_back(context.description());
    return names;
  }

 private:
  ConstMatrix first_rows(std::int64_t m) const {
    require(m <= max_m_, "ablation '{}': {} rows of {} were asked for", shape().name, m, max_m_);
    return {operands_.x.data(), m, operands_.weights.k, operands_.weights.k};
  }

  double fastest_of(int runs, const Method& method, std::int64_t m) const {
    std::vector<float> y(static_cast<std::size_t>(m * columns()));
    run_into(method, m, y);
    double fastest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < runs; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      run_into(method, m, y);
      fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return fastest;
  }

  void run_into(const Method& method, std::int64_t m, std::vector<float>& results) const {
    const Matrix y{results.data(), m, columns(), columns()};
    std::visit(
        Overloaded{[&](const Shipped&) { shipped_.run(first_rows(m), y); },
                   [&](const ShippedSchedule& schedule) {
                     PreparedLayer(schedules_.at(schedule.index), operands_.weights.view(), m).run(first_rows(m), y);
                   },
                   [&](const Vendor& vendor) {
                     require(sgemm_ != nullptr && vendor.name == kVendorSgemm,
                             "ablation: no '{}' was found on this CPU", vendor.name);
                     sgemm_->run(first_rows(m), y);
                   },
                   [&](const LaneSum& sum) { ablated_.run_in_lanes(sum.lanes, first_rows(m), y); },
                   [&](const ablation::Variant& variant) { ablated_.run(variant, first_rows(m), y); }},
        method);
  }

  std::int64_t rows_;
  Operands operands_;
  std::int64_t max_m_;
  const std::vector<Context>& schedules_;
  PreparedLayer shipped_;
  std::unique_ptr<PreparedLayer> sgemm_;  // null: no OpenBLAS here
  ablation::CpuLinear ablated_;
};

class CpuMachine final : public AblationMachine {
 public:
  explicit CpuMachine(const CpuAblationSetup& setup)
      : setup_(setup), context_(Context::cpu(kDefaultNumerics, std::nullopt, setup.threads)) {
    for (const Isa isa : supported_isas())
      for (const int threads : kOtherThreadCounts) schedules_.push_back(Context::cpu(kDefaultNumerics, isa, threads));
    try {
      vendor::openblas_of(*context_.state().backend);
      sgemm_ = std::make_unique<Context>(Context::cpu(kVendorSgemm, std::nullopt, setup.threads));
    } catch (const Error&) {  // a study without it: vendors() says so
    }
  }

  std::string description() const override { return context_.description(); }
  bool has_tensor_cores() const override { return false; }
  bool has_instruction_sets() const override { return true; }
  bool computes_whole_cases() const override { return false; }
  std::string vendor_library() const override { return "OpenBLAS"; }
  std::string reference_name() const override { return "the reference loop"; }
  int multiprocessors() const override { return kStandInMultiprocessors; }

  std::vector<ablation::Tile> tiles(std::int64_t m) const override {
    std::vector<ablation::Tile> all;
    for (const int rows : kTileRows)
      for (const int columns : kTileColumns)
        for (const int terms : kTileTerms) all.push_back({rows, columns, terms});
    return for_batch(std::move(all), m);
  }

  std::vector<std::string> vendors() const override {
    return sgemm_ != nullptr ? std::vector<std::string>{kVendorSgemm} : std::vector<std::string>{};
  }

  std::vector<std::int64_t> batches_beyond_decode() const override {
    std::vector<std::int64_t> batches = {65, 96};
    for (std::int64_t m = 128; m <= setup_.max_batch; m *= 2) batches.push_back(m);
    return batches;
  }

  std::unique_ptr<LoadedCase> load(const AblationCase& shape, std::int64_t max_m) override {
    const std::int64_t rows = shape.kind == CaseKind::kPrefill ? std::min(shape.m, setup_.prefill_rows) : shape.m;
    const std::int64_t columns = std::min(shape.n, setup_.columns);
    Operands operands{
        make_activations(kActivationSeed, std::max(rows, max_m), shape.k),
        make_weights(weight_seed(shape), DType::kBF16, columns, shape.k, context_.state().backend->required_pool())};
    return std::make_unique<CpuCase>(shape, rows, std::move(operands), context_, schedules_, sgemm_.get());
  }

 private:
  CpuAblationSetup setup_;
  Context context_;
  std::vector<Context> schedules_;  // every instruction set at several thread counts
  std::unique_ptr<Context> sgemm_;  // null: no OpenBLAS here
};

}  // namespace

std::unique_ptr<AblationMachine> make_cpu_ablation_machine(const CpuAblationSetup& setup) {
  return std::make_unique<CpuMachine>(setup);
}

}  // namespace reprofuse::study
