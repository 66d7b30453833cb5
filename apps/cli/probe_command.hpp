// reprofuse probe
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_probe_command(CLI::App& app);

}  // namespace reprofuse::cli
