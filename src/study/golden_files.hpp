// The committed digests of golden/, carried in the binary.
#pragma once

#include <string_view>

namespace reprofuse::study {

// The content of golden/NAME.json. Throws kUnsupported when there is no such file.
std::string_view golden_file(std::string_view name);

}  // namespace reprofuse::study
