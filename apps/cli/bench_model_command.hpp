// reprofuse bench model: how fast whole models decode.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_bench_model_command(CLI::App& bench);

}  // namespace reprofuse::cli
