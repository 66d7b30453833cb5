// reprofuse bench linear: how fast the linear layer is.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_bench_linear_command(CLI::App& bench);

}  // namespace reprofuse::cli
