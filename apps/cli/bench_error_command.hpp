// reprofuse bench error
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_bench_error_command(CLI::App& bench);

}  // namespace reprofuse::cli
