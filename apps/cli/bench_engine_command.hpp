// reprofuse bench engine: how fast the serving engine answers many requests at once.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_bench_engine_command(CLI::App& bench);

}  // namespace reprofuse::cli
