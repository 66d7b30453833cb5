// reprofuse stress: many requests under many schedules; none may move a bit.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_stress_command(CLI::App& app);

}  // namespace reprofuse::cli
