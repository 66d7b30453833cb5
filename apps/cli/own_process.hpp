// This tool once more, in a process of its own: for what is decided once per process, by the environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reprofuse::cli {

enum class OwnErrors { kHidden, kShown };  // stderr of the process

// stdout of this tool with the arguments; nothing when it fails. `assignment` is one more variable of its environment,
// "NAME=value", or empty.
std::optional<std::string> run_self(std::vector<std::string> arguments, const std::string& assignment,
                                    OwnErrors errors);

}  // namespace reprofuse::cli
