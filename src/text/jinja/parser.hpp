// From a template's source to its syntax tree.
#pragma once

#include <string_view>

#include "text/jinja/ast.hpp"

namespace reprofuse::text::jinja {

// Throws TemplateError: for bad syntax, and for a statement, filter or test that is not supported.
Block parse(std::string_view source);

}  // namespace reprofuse::text::jinja
