// How often answers differ between machines and between orders of arrival, where they first do, and why: the metrics of
// the paper, computed from runs. docs/study.md defines each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "study/runs/run_file.hpp"

namespace reprofuse::study {

// Pairs of answers to one problem.
struct Divergence {
  std::int64_t pairs = 0;
  std::int64_t divergent = 0;            // pairs whose tokens differ
  std::int64_t other_digests = 0;        // pairs with the same tokens and other logits
  double first_index_sum = 0;            // of the first differing token, over the divergent pairs
  std::int64_t positions = 0;            // that both pass with the same tokens so far
  std::int64_t equal_margins = 0;        // of these, with the same margin, bit for bit
  std::int64_t exposed = 0;              // of these, where the shift is larger than the margin
  std::vector<float> shifts = {};        // |margin of one - margin of the other|, of these
  std::vector<float> flip_margins = {};  // at the first differing token

  double fraction() const { return pairs == 0 ? 0 : static_cast<double>(divergent) / static_cast<double>(pairs); }
  std::optional<double> mean_first_index() const {  // Div_Index
    return divergent == 0 ? std::nullopt : std::optional(first_index_sum / static_cast<double>(divergent));
  }
};

struct PairOfRuns {
  std::string a = {}, b = {};
  Divergence divergence = {};
};

struct Accuracy {
  std::int64_t known = 0, right = 0;
  double low = 0, high = 0;  // Wilson's interval of 95 %
};

struct CellTime {
  std::string run = {};
  double mean_seconds = 0, deviation = 0;  // over the seeds; of a sample
  double tokens_per_second = 0;
  Accuracy accuracy = {};
};

// Everything about one numerics.
struct MethodResult {
  std::string numerics = {};
  bool pins_bits = false;
  std::int64_t problems = 0;
  std::int64_t divergent_problems = 0;  // between at least one pair of runs at a seed that both have
  Divergence between_runs = {};         // all pairs of runs at matched seeds
  std::vector<PairOfRuns> pairs = {};
  Divergence between_seeds = {};              // pairs of seeds within a run
  std::vector<float> margins = {};            // of every step, in ascending order
  std::optional<double> tail_slope = {};      // P(margin <= x) / x at x = 0.1; none: no margin is that small
  std::optional<double> flip_per_token = {};  // p = 1/2 E[P(margin < |shift|)]
  std::optional<double> predicted = {};       // of the pairs, those that diverge: the mean of 1 - (1 - p)^L
  std::optional<double> measured = {};
  std::vector<CellTime> times = {};

  double divergent_fraction() const {  // Div%
    return problems == 0 ? 0 : static_cast<double>(divergent_problems) / static_cast<double>(problems);
  }
  bool moved() const;  // something differs that a contract pins
  // The pairs that shifts are about: those between runs, or else between seeds.
  const Divergence& compared() const { return between_runs.pairs > 0 ? between_runs : between_seeds; }
};

// Contracts before baselines, each in the order of the runs. Throws kInvalidArgument, with the reason, for runs that
// cannot be compared: of other models, problems or settings, or not finished.
std::vector<MethodResult> compare_runs(std::span<const Run> runs);

// Throws where a contract moved.
void require_unmoved(std::span<const MethodResult> methods);

// The value below which a part of them lies; they are in ascending order. 0 where there are none.
float quantile(std::span<const float> ascending, double part);

// How values are distributed, for a figure with a logarithmic axis.
struct Curve {
  double zero = 0;                  // the part that is exactly 0
  int first = 0;                    // values[i] is the part that is at most 10^((first + i) / 16), ending with 1
  std::vector<double> values = {};  // none: all are 0, or there is none
};
Curve cumulative_curve(std::span<const float> ascending);

Accuracy accuracy_of(std::int64_t known, std::int64_t right);

}  // namespace reprofuse::study
