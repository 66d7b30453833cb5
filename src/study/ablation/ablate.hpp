// The paper's ablations of rules R1 to R4: each rule a switch, everything else fixed, and the variant with every rule
// on checked bit for bit against the shipped layer in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "study/ablation/machine.hpp"

namespace reprofuse::study {

// What an ablation found, in a form that a terminal, a document, a program and a browser can be given.

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

// What OpenBLAS gives for each CPU case when it is made to choose the kernels of another machine.
struct VendorKernels {
  std::string name;                  // of the kernels that really ran
  std::vector<std::string> digests;  // one per case
};

struct AblationOptions {
  std::function<void(std::string_view)> progress = [](std::string_view) {};
  // OpenBLAS chooses its kernels once per process, so the caller runs others in processes of their own.
  std::function<std::vector<VendorKernels>()> vendor_kernels = nullptr;
  std::vector<AblationCase> cases = ablation_cases();
  int runs = 50;  // of a race, to count its outcomes
};

Experiment ablate_r1(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r2(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r3(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r4(AblationMachine& machine, const AblationOptions& options);

// The digests that VendorKernels holds, by the library of this process.
std::vector<std::string> vendor_digests(AblationMachine& machine, const AblationOptions& options);

// What the four ablations share: counting outcomes, measuring errors, tuning, and the check that opens each of them.

// Results by their bits.
class Outcomes {
 public:
  // Which one it is, counted from 0 in order of appearance.
  std::size_t add(ConstMatrix result);
  std::size_t distinct() const { return seen_.size(); }

 private:
  std::map<std::string, std::size_t> seen_;  // by digest
};

ConstMatrix matrix_of(const std::vector<float>& values, std::int64_t rows, std::int64_t columns);
std::size_t values_that_differ(const std::vector<float>& a, const std::vector<float>& b);

// Results in binary64 at a sample of places, against which errors are given as parts of the largest magnitude there.
class Fp64Sample {
 public:
  Fp64Sample(const LoadedCase& operands, std::int64_t m);
  double worst_error(const std::vector<float>& y) const;  // y: [m, columns]

 private:
  struct Place {
    std::size_t index;
    double value;
  };
  std::vector<Place> places_;
  double scale_ = 0;
};

double median(std::vector<double> values);  // of those that are numbers; NaN of none

// The time of a method beside the ablated layer's, or NaN where that would mislead: on the CPU the ablated layer has
// its few columns in binary32 and in a cache, so its times compare with each other alone.
double seconds_beside_ablated(const AblationMachine& machine, LoadedCase& operands, const Method& method,
                              std::int64_t m);

// `analogue` says what stands in for a GPU where the machine has none.
Experiment open_experiment(const AblationMachine& machine, std::string rule, std::string title,
                           const std::string& analogue);

// The claim that opens every experiment: with every rule on, the ablated layer gives the shipped layer's bits on every
// case.
void claim_rules_on(AblationMachine& machine, const AblationOptions& options, Experiment& experiment);

// "holds on 9 of 9 cases" and the like.
Claim claim_of(std::string text, std::int64_t held, std::int64_t of);

// An autotuner of the usual kind: it times every candidate on the machine at hand and keeps the fastest.
ablation::Variant tune(LoadedCase& operands, std::span<const ablation::Variant> menu, std::int64_t m);

}  // namespace reprofuse::study
