// What an ablation found, in a form that a terminal, a document, a program and a browser can be given.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace reprofuse::study {

using Cell = std::variant<std::string, std::int64_t, double>;

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  std::string note{};  // how to read it; may be empty
};

// What must hold, whatever the machine. An observation of the ablated variants is no claim.
struct Claim {
  std::string text;
  bool held;
};

struct Experiment {
  std::string rule;      // "r1"
  std::string title;     // "R1: IEEE FMA only"
  std::string machine;   // where it ran
  std::string analogue;  // what stands in for a GPU's experiment; empty: nothing does
  std::vector<Claim> claims{};
  std::vector<Table> tables{};
};

std::string to_text(const Cell& cell);  // a double with three digits; NaN, which is no measurement, as a dash
bool all_claims_hold(std::span<const Experiment> experiments);

// A heading, the claims as a list and the tables, with columns aligned: to read as it is, or to paste into a document.
std::string to_markdown(const Experiment& experiment);
nlohmann::ordered_json to_json(const Experiment& experiment);
// One page that asks nothing of the network.
std::string to_html(std::span<const Experiment> experiments, const std::string& version);

}  // namespace reprofuse::study
