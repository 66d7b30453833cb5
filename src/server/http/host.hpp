// What a client calls the server.
#pragma once

#include <string>

namespace reprofuse::server {

// Whether a Host header is one that no site on the network can have: localhost, or an address in digits. A page of any
// other name may have been loaded from elsewhere, before its name was made to stand for this machine (DNS rebinding),
// and a browser then lets it ask as if it were ours.
bool is_local_name(const std::string& host);

}  // namespace reprofuse::server
