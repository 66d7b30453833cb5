// The methods of Python's strings and mappings that templates call.
#pragma once

#include <string_view>

#include "text/jinja/runtime.hpp"

namespace reprofuse::text::jinja {

Value call_method(const Value& object, std::string_view name, const Arguments& arguments, Runtime& runtime);

}  // namespace reprofuse::text::jinja
