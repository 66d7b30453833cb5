// What a server answers, by address. Included by the sources of the server alone.
#pragma once

#include <string_view>

#include "server/server.hpp"

namespace reprofuse::server {

struct Server::Visit {
  const HttpRequest& request;
  ReadGuard& guard;
  RequestRecord& record;
};

struct Server::Route {
  std::string_view method;
  std::string_view path;  // one that ends with '/' stands for all that begin with it
  bool needs_key;
  bool needs_model;
  bool in_reserve;  // also over connections that are kept for those who watch the server
  HttpResponse (Server::*answer)(const Visit& visit);
};

}  // namespace reprofuse::server
