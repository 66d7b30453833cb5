// What the four ablations share: counting outcomes, measuring errors, tuning, and the check that opens each of them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "study/ablation/ablate.hpp"
#include "study/ablation/machine.hpp"

namespace reprofuse::study {

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
