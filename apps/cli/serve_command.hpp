// reprofuse serve: the OpenAI API and a page, over HTTP.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

void add_serve_command(CLI::App& app);  // adds nothing in a build without the server

}  // namespace reprofuse::cli
