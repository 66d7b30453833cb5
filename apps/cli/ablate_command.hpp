// reprofuse ablate: what each rule of the contract is worth, one rule switched off at a time.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_ablate_command(CLI::App& app);

}  // namespace reprofuse::cli
