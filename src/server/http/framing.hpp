// What a request's header says of its body.
#pragma once

#include <httplib.h>

#include <cstddef>
#include <optional>

#include "server/http/message.hpp"

namespace reprofuse::server {

bool comes_in_chunks(const httplib::Request& request);

// Whether bytes may follow the header that are not the next request.
bool announces_body(const httplib::Request& request);

// The answer to a header by which the next request could begin in two places, or be meant for two servers. Stricter
// than httplib, which guesses.
std::optional<HttpResponse> refuse_framing(const httplib::Request& request);

// The answer to a header, framed well, whose body would be too large, or is in a form that is not read.
std::optional<HttpResponse> refuse_body(const httplib::Request& request, std::size_t max_body_bytes);

}  // namespace reprofuse::server
