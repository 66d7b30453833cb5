// Which variables a template asks for.
#pragma once

#include <set>
#include <string>

#include "text/jinja/ast.hpp"

namespace reprofuse::text::jinja {

// The names that it reads where it may not have set them itself, in any conversation, without those of functions. It
// may be one too many, where a macro reads what the template sets before it calls the macro; it is never one too few.
std::set<std::string> free_names(const Block& block);

}  // namespace reprofuse::text::jinja
