// Small ablations: a CPU machine of few columns, one that lies on demand, and a way to look into the tables.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "study/ablation/ablate.hpp"

namespace reprofuse::study {

inline const std::vector<AblationCase>& small_cases() {
  // K leaves a segment and most tiles incomplete; N is what the occupancy rule is asked about.
  static const std::vector<AblationCase> kCases = {{"decode", CaseKind::kDecode, 5, 6144, 1604},
                                                   {"prefill", CaseKind::kPrefill, 2048, 6144, 516},
                                                   {"ragged", CaseKind::kRagged, 7, 19, 1000}};
  return kCases;
}

// One thread: what OpenBLAS's threads do to each other, a thread sanitizer cannot see.
inline std::unique_ptr<AblationMachine> small_machine() {
  return make_cpu_ablation_machine({.columns = 20, .prefill_rows = 6, .max_batch = 96, .threads = 1});
}

inline AblationOptions small_options() {
  AblationOptions options;
  options.cases = small_cases();
  options.runs = 4;
  return options;
}

using Alteration = std::function<void(const Method&, std::int64_t m, std::vector<float>& y)>;

// Another machine's results, altered: what a broken kernel would do to an experiment.
class AlteredCase final : public LoadedCase {
 public:
  AlteredCase(std::unique_ptr<LoadedCase> inner, const Alteration& alter)
      : LoadedCase(inner->shape()), inner_(std::move(inner)), alter_(alter) {}

  std::int64_t rows() const override { return inner_->rows(); }
  std::int64_t columns() const override { return inner_->columns(); }
  ConstMatrix x() const override { return inner_->x(); }
  WeightView weight() const override { return inner_->weight(); }
  std::vector<float> run(const Method& method, std::int64_t m) override {
    std::vector<float> y = inner_->run(method, m);
    alter_(method, m, y);
    return y;
  }
  double seconds(const Method&, std::int64_t) override { return 1.0; }
  double glance(const Method&, std::int64_t) override { return 1.0; }
  std::vector<float> reference(std::int64_t m) override { return inner_->reference(m); }
  std::vector<std::string> schedules(std::int64_t m) override { return inner_->schedules(m); }

 private:
  std::unique_ptr<LoadedCase> inner_;
  const Alteration& alter_;
};

class AlteredMachine final : public AblationMachine {
 public:
  explicit AlteredMachine(Alteration alter) : inner_(small_machine()), alter_(std::move(alter)) {}

  std::string description() const override { return inner_->description(); }
  bool has_tensor_cores() const override { return false; }
  bool has_instruction_sets() const override { return true; }
  bool computes_whole_cases() const override { return false; }
  std::string vendor_library() const override { return "OpenBLAS"; }
  std::string reference_name() const override { return inner_->reference_name(); }
  int multiprocessors() const override { return inner_->multiprocessors(); }
  std::vector<ablation::Tile> tiles(std::int64_t) const override { return {ablation::kPinnedTile}; }
  std::vector<std::string> vendors() const override { return {}; }
  std::vector<std::int64_t> batches_beyond_decode() const override { return {65}; }
  std::unique_ptr<LoadedCase> load(const AblationCase& shape, std::int64_t max_m) override {
    return std::make_unique<AlteredCase>(inner_->load(shape, max_m), alter_);
  }

 private:
  std::unique_ptr<AblationMachine> inner_;
  Alteration alter_;
};

// The cell of the table whose title contains `title`, in the row that begins with `row`, under `column`.
inline Cell cell_of(const Experiment& experiment, const std::string& title, const std::string& row,
                    const std::string& column) {
  for (const Table& table : experiment.tables) {
    if (table.title.find(title) == std::string::npos) continue;
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      for (const auto& cells : table.rows)
        if (table.columns[c] == column && to_text(cells[0]).rfind(row, 0) == 0) return cells[c];
  }
  throw std::out_of_range("no cell '" + title + "', '" + row + "', '" + column + "'");
}

inline std::string text_of(const Experiment& experiment, const std::string& title, const std::string& row,
                           const std::string& column) {
  return to_text(cell_of(experiment, title, row, column));
}

}  // namespace reprofuse::study
