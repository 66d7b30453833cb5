// The name of a request, in the log, in the answer's header and in its body.
#pragma once

#include <string>

namespace reprofuse::server {

// The client's, if it is one that can be written anywhere, else a new one.
std::string request_id_of(const std::string& given);

}  // namespace reprofuse::server
