#include "study/ablation/ablate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "kernels/reference/reference.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::study {

const std::vector<AblationCase>& ablation_cases() {
  static const std::vector<AblationCase> kCases = {{"QKV, 8B", CaseKind::kDecode, 32, 6144, 4096},
                                                   {"Down, 8B", CaseKind::kDecode, 32, 4096, 14336},
                                                   {"QKV, Qwen3-4B", CaseKind::kDecode, 32, 6144, 2560},
                                                   {"Down, Qwen3-4B", CaseKind::kDecode, 32, 2560, 9728},
                                                   {"Output proj.", CaseKind::kDecode, 32, 4096, 4096},
                                                   {"lm_head, 3B", CaseKind::kDecode, 32, 128256, 3072},
                                                   {"Prefill QKV, 8B", CaseKind::kPrefill, 2048, 6144, 4096},
                                                   {"Prefill down, 8B", CaseKind::kPrefill, 2048, 4096, 14336},
                                                   {"Ragged probe", CaseKind::kRagged, 100, 1000, 1000}};
  return kCases;
}

std::vector<AblationCase> decode_cases() {
  std::vector<AblationCase> cases;
  std::copy_if(ablation_cases().begin(), ablation_cases().end(), std::back_inserter(cases),
               [](const AblationCase& each) { return each.kind == CaseKind::kDecode; });
  return cases;
}

int wave_sized_splits(std::int64_t m, std::int64_t n, const ablation::Tile& tile, int multiprocessors) {
  const std::int64_t tiles = ceil_div<std::int64_t>(m, tile.m) * ceil_div<std::int64_t>(n, tile.n);
  // Compared as fractions of whole numbers: blocks / places, where places fill whole waves.
  std::int64_t best_blocks = 0, best_places = 1;
  int best = 1;
  for (const int splits : kSweptSplits) {
    const std::int64_t blocks = tiles * splits;
    const std::int64_t places = round_up<std::int64_t>(blocks, multiprocessors);
    if (blocks * best_places <= best_blocks * places) continue;
    best_blocks = blocks;
    best_places = places;
    best = splits;
  }
  return best;
}

std::vector<ablation::Tile> for_batch(std::vector<ablation::Tile> tiles, std::int64_t m) {
  constexpr std::int64_t kMaxDecodeRows = 128;
  if (m <= kMaxDecodeRows) return tiles;
  int tallest = 0;
  for (const ablation::Tile& tile : tiles) tallest = std::max(tallest, tile.m);
  std::erase_if(tiles, [&](const ablation::Tile& tile) { return tile.m < tallest; });
  return tiles;
}

std::vector<ablation::Variant> candidates(std::span<const ablation::Tile> tiles, std::span<const int> splits) {
  std::vector<ablation::Variant> variants;
  for (const ablation::Tile& tile : tiles)
    for (const int count : splits) variants.push_back({.tile = tile, .splits = count});
  return variants;
}

std::string to_string(const ablation::Variant& variant) {
  const ablation::Tile& tile = variant.tile;
  const std::string splits =
      variant.splits == ablation::kOnePerSegment ? "by segment" : fmt::format("S={}", variant.splits);
  return fmt::format("({},{},{}) {}", tile.m, tile.n, tile.k, splits);
}

namespace {

constexpr std::int64_t kSampledRows = 32;
constexpr std::int64_t kSampledColumns = 64;

}  // namespace

ConstMatrix matrix_of(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  invariant(static_cast<std::int64_t>(values.size()) == rows * columns, "a result has another shape than its case");
  return {values.data(), rows, columns, columns};
}

std::size_t Outcomes::add(ConstMatrix result) {
  return seen_.try_emplace(sha256_hex(result), seen_.size()).first->second;
}

std::size_t values_that_differ(const std::vector<float>& a, const std::vector<float>& b) {
  const auto size = static_cast<std::int64_t>(a.size());
  const auto difference = first_difference(matrix_of(a, 1, size), matrix_of(b, 1, static_cast<std::int64_t>(b.size())));
  return difference ? static_cast<std::size_t>(difference->count) : 0;
}

// A product of two binary32 values is exact in binary64, and so is nearly every sum of them here.
Fp64Sample::Fp64Sample(const LoadedCase& operands, std::int64_t m) {
  const ConstMatrix x = operands.x();
  const WeightView weight = operands.weight();
  const std::int64_t row_step = ceil_div(m, kSampledRows);
  const std::int64_t column_step = ceil_div(weight.n, kSampledColumns);
  for (std::int64_t column = 0; column < weight.n; column += column_step) {
    std::vector<double> w(static_cast<std::size_t>(weight.k));
    for (std::int64_t k = 0; k < weight.k; ++k) w[static_cast<std::size_t>(k)] = reference::widened(weight, column, k);
    for (std::int64_t row = 0; row < m; row += row_step) {
      double sum = 0;
      for (std::int64_t k = 0; k < weight.k; ++k) sum += x.data[row * x.stride + k] * w[static_cast<std::size_t>(k)];
      places_.push_back({static_cast<std::size_t>(row * weight.n + column), sum});
      scale_ = std::max(scale_, std::abs(sum));
    }
  }
}

double Fp64Sample::worst_error(const std::vector<float>& y) const {
  double worst = 0;
  for (const Place& place : places_) worst = std::max(worst, std::abs(y.at(place.index) - place.value));
  return worst / scale_;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_beside_ablated(const AblationMachine& machine, LoadedCase& operands, const Method& method,
                              std::int64_t m) {
  const bool comparable = machine.computes_whole_cases() || std::holds_alternative<ablation::Variant>(method);
  return comparable ? operands.seconds(method, m) : std::numeric_limits<double>::quiet_NaN();
}

Claim claim_of(std::string text, std::int64_t held, std::int64_t of) {
  return {fmt::format("{}, on {} of {}", std::move(text), held, of), held == of && of > 0};
}

Experiment open_experiment(const AblationMachine& machine, std::string rule, std::string title,
                           const std::string& analogue) {
  constexpr const char* kOfPartOfEachCase =
      " Of each case the first columns are computed, and of a prefill the first rows. A dash stands where times would "
      "not compare: the ablated layer has its few columns in binary32 and in a cache, the shipped layer has not.";
  return {.rule = std::move(rule),
          .title = std::move(title),
          .machine = machine.description(),
          .analogue =
              (machine.has_tensor_cores() ? "" : analogue) + (machine.computes_whole_cases() ? "" : kOfPartOfEachCase)};
}

void claim_rules_on(AblationMachine& machine, const AblationOptions& options, Experiment& experiment) {
  std::int64_t equal = 0;
  for (const AblationCase& shape : options.cases) {
    options.progress(fmt::format("ablate {}: every rule on, {} ...", experiment.rule, shape.name));
    const auto operands = machine.load(shape);
    const std::int64_t m = operands->rows();
    equal += values_that_differ(operands->run(ablation::Variant{}, m), operands->run(Shipped{}, m)) == 0;
  }
  experiment.claims.push_back(claim_of("the ablated layer with every rule on gives the shipped layer's bits", equal,
                                       static_cast<std::int64_t>(options.cases.size())));
}

ablation::Variant tune(LoadedCase& operands, std::span<const ablation::Variant> menu, std::int64_t m) {
  require(!menu.empty(), "ablation '{}': a tuner without candidates", operands.shape().name);
  const ablation::Variant* best = nullptr;
  double least = 0;
  for (const ablation::Variant& candidate : menu) {
    const double seconds = operands.glance(candidate, m);
    if (best != nullptr && seconds >= least) continue;
    best = &candidate;
    least = seconds;
  }
  return *best;
}

namespace {

bool is_number(const Cell& cell) {
  return !std::holds_alternative<std::string>(cell);
}

// Columns of numbers go to the right; a column without rows to the left.
bool is_numeric(const Table& table, std::size_t column) {
  return !table.rows.empty() &&
         std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return is_number(row[column]); });
}

std::string markdown(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::size_t width = table.columns[c].size();
    for (const auto& row : table.rows) width = std::max(width, to_text(row[c]).size());
    widths.push_back(width);
  }
  std::string text = fmt::format("{}\n\n|", table.title);
  for (std::size_t c = 0; c < widths.size(); ++c) text += fmt::format(" {:<{}} |", table.columns[c], widths[c]);
  text += "\n|";
  for (std::size_t c = 0; c < widths.size(); ++c)
    text += fmt::format("{}{}|", std::string(widths[c] + 1, '-'), is_numeric(table, c) ? ":" : "-");
  text += "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (std::size_t c = 0; c < widths.size(); ++c)
      text += is_numeric(table, c) ? fmt::format(" {:>{}} |", to_text(row[c]), widths[c])
                                   : fmt::format(" {:<{}} |", to_text(row[c]), widths[c]);
    text += "\n";
  }
  if (!table.note.empty()) text += fmt::format("\n{}\n", table.note);
  return text;
}

nlohmann::ordered_json json_of(const Cell& cell) {
  return std::visit([](const auto& value) { return nlohmann::ordered_json(value); }, cell);
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string html(const Table& table) {
  std::string text = fmt::format("<figure>\n<table>\n<caption>{}</caption>\n<thead><tr>", escaped(table.title));
  for (const std::string& column : table.columns) text += fmt::format("<th scope=\"col\">{}</th>", escaped(column));
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (const Cell& cell : row)
      text += fmt::format("<td{}>{}</td>", is_number(cell) ? " class=\"number\"" : "", escaped(to_text(cell)));
    text += "</tr>\n";
  }
  text += "</tbody>\n</table>\n";
  if (!table.note.empty()) text += fmt::format("<figcaption>{}</figcaption>\n", escaped(table.note));
  return text + "</figure>\n";
}

std::string html(const Experiment& experiment) {
  std::string text = fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"machine\">{}</p>\n",
                                 escaped(experiment.rule), escaped(experiment.title), escaped(experiment.machine));
  if (!experiment.analogue.empty())
    text += fmt::format("<p class=\"analogue\"><strong>CPU analogue:</strong> {}</p>\n", escaped(experiment.analogue));
  text += "<ul class=\"claims\">\n";
  for (const Claim& claim : experiment.claims)
    text += fmt::format("<li class=\"{}\"><strong>{}</strong> {}</li>\n", claim.held ? "held" : "broken",
                        claim.held ? "holds" : "DOES NOT HOLD", escaped(claim.text));
  text += "</ul>\n";
  for (const Table& table : experiment.tables) text += html(table);
  return text + "</section>\n";
}

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --text: #1d2433; --muted: #5b6577; --page: #fdfdfc; --line: #d9dde4; --good: #0b6b3a;
  --bad: #b3261e; --note: #f3f1e7; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ef; --muted: #a3adbd; --page: #14171c; --line: #353c48;
  --good: #6fd49c; --bad: #ff8a80; --note: #25241d; } }
body { margin: 2rem auto; max-width: 64rem; padding: 0 1rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-top: 1px solid var(--line);
  padding-top: 1rem; }
.machine, figcaption { color: var(--muted); } .analogue { background: var(--note); padding: .6rem .8rem; }
.claims { list-style: none; padding: 0; } .held strong { color: var(--good); } .broken strong { color: var(--bad); }
figure { margin: 1.5rem 0; overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:first-child { white-space: nowrap; } .number { font-variant-numeric: tabular-nums; } figcaption { font-size: .85rem; margin-top: .4rem; }
)css";

}  // namespace

std::string to_text(const Cell& cell) {
  return std::visit(Overloaded{[](const std::string& text) { return text; },
                               [](std::int64_t value) { return fmt::format("{}", value); },
                               [](double value) { return std::isnan(value) ? "-" : fmt::format("{:.3g}", value); }},
                    cell);
}

bool all_claims_hold(std::span<const Experiment> experiments) {
  return std::all_of(experiments.begin(), experiments.end(), [](const Experiment& experiment) {
    return std::all_of(experiment.claims.begin(), experiment.claims.end(),
                       [](const Claim& claim) { return claim.held; });
  });
}

std::string to_markdown(const Experiment& experiment) {
  std::string text = fmt::format("## {}\n\n{}\n", experiment.title, experiment.machine);
  if (!experiment.analogue.empty()) text += fmt::format("\nCPU analogue: {}\n", experiment.analogue);
  text += "\n";
  for (const Claim& claim : experiment.claims)
    text += fmt::format("- {}: {}\n", claim.held ? "holds" : "DOES NOT HOLD", claim.text);
  for (const Table& table : experiment.tables) text += "\n" + markdown(table);
  return text;
}

nlohmann::ordered_json to_json(const Experiment& experiment) {
  nlohmann::ordered_json json = {{"rule", experiment.rule},
                                 {"title", experiment.title},
                                 {"machine", experiment.machine},
                                 {"cpu_analogue", experiment.analogue},
                                 {"claims", nlohmann::ordered_json::array()},
                                 {"tables", nlohmann::ordered_json::array()}};
  for (const Claim& claim : experiment.claims) json["claims"].push_back({{"text", claim.text}, {"held", claim.held}});
  for (const Table& table : experiment.tables) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const auto& row : table.rows) {
      nlohmann::ordered_json object;
      for (std::size_t c = 0; c < row.size(); ++c) object[table.columns[c]] = json_of(row[c]);
      rows.push_back(std::move(object));
    }
    json["tables"].push_back({{"title", table.title}, {"rows", std::move(rows)}, {"note", table.note}});
  }
  return json;
}

std::string to_html(std::span<const Experiment> experiments, const std::string& version) {
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>ReproFuse: what each rule is worth</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>What each rule is worth</h1>\n"
      "<p>Contract fma-1 with one rule switched off at a time and everything else as it is. ReproFuse {}.</p>\n",
      kStyle, escaped(version));
  for (const Experiment& experiment : experiments) text += html(experiment);
  return text + "</body>\n</html>\n";
}

}  // namespace reprofuse::study
