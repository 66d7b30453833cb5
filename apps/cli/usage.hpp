// A command line that makes no sense: the mistake and a hint on stderr, and exit status 2. What can be told from the
// command line alone belongs here; what the machine, a folder or the network refuses is status 1.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "reprofuse/error.hpp"

namespace reprofuse::cli {

inline void check_usage(bool condition, const std::string& message) {
  if (!condition) throw CLI::ValidationError(message);
}

// Calls read(): what the library does not understand in the value of an option is a mistake of the command line.
template <typename Read>
auto reading_option(const std::string& option, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw CLI::ValidationError(option, error.what());
  }
}

// What a command and those below it do not know is refused by name, with the nearest that they know. After all options
// and subcommands have been added.
void refuse_unknown(CLI::App& command);

}  // namespace reprofuse::cli
