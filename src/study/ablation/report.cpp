#include "study/ablation/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "study/ablation/machine.hpp"

namespace reprofuse::study {
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
