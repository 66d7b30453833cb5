// String literals in templates, with Python's escapes.
#pragma once

#include <string>
#include <string_view>

namespace reprofuse::text::jinja {

// `quoted` is what stands between the quotes. As in Python, an unknown escape stays as it is written.
std::string unescape(std::string_view quoted, int line);

}  // namespace reprofuse::text::jinja
