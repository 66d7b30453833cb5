// What a request's header says of its body.
#pragma once

#include <httplib.h>

#include <cstddef>
#include <optional>

#include "server/http_message.hpp"

namespace reprofuse::server {

// Whether bytes follow the header that are not the next request.
bool announces_body(const httplib::Request& request);

// The answer to a header whose body could be taken in two ways, would be too large, or is in a form that is not read.
// Stricter than httplib, which guesses.
std::optional<HttpResponse> refuse_framing(const httplib::Request& request, std::size_t max_body_bytes);

}  // namespace reprofuse::server
