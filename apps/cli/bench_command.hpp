// reprofuse bench
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_bench_command(CLI::App& app);

}  // namespace reprofuse::cli
