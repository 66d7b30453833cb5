// Options that the benchmarks share. What makes no sense is refused while the command line is read.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/device_options.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::cli {

// Comma-separated values, none of them empty or given twice. The list holds the default before and the values after.
void add_number_list(CLI::App& command, const std::string& option, std::vector<std::int64_t>& numbers, std::int64_t max,
                     const std::string& about);
// Replaces a --numerics that takes one name. An empty list is what `otherwise` says in the help; nothing: the default
// of the device.
void add_numerics_list(CLI::App& command, std::vector<std::string>& numerics, const std::string& about,
                       const std::string& otherwise = "");

// ": fma-1, the default there; ..." after a device, where the list names none; else nothing.
std::string default_note(const std::vector<std::string>& numerics, const std::string& device);

// A file to be written at the end.
void add_output_file(CLI::App& command, const std::string& option, std::string& path, const std::string& about);

// One context per numerics, all of them known to compute here before anything is measured. An empty list is the default
// of the device.
std::vector<Context> make_contexts(const DeviceArguments& device, const std::vector<std::string>& numerics,
                                   const std::shared_ptr<model::Team>& team = nullptr);

}  // namespace reprofuse::cli
