// reprofuse info: numerics, devices, and a model's card.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_info_command(CLI::App& app);

}  // namespace reprofuse::cli
