// `reprofuse serve` of a build without the server: there is no such command.
#include "cli/commands.hpp"

namespace reprofuse::cli {

void add_serve_command(CLI::App&) {}

}  // namespace reprofuse::cli
