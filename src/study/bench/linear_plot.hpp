// The rows of a benchmark as a figure: time over M, a panel per projection and per whole forward, a line per numerics,
// and the two floors.
#pragma once

#include <span>
#include <string>

#include "study/bench/linear.hpp"
#include "study/plot_svg.hpp"

namespace reprofuse::study {

// Rows of several contracts may follow each other; a baseline that was measured beside each is drawn once.
Plot plot_linear(std::span<const BenchRow> rows, const std::string& device);

}  // namespace reprofuse::study
