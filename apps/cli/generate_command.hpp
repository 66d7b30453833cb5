// reprofuse generate: one answer to one prompt.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_generate_command(CLI::App& app);

}  // namespace reprofuse::cli
