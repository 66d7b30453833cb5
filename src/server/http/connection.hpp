// One connection: requests in, answers out, through httplib's reader and writer of HTTP.
#pragma once

#include <httplib.h>

#include <cstddef>
#include <optional>
#include <string>

#include "server/http/connection_listener.hpp"
#include "server/http/connection_stream.hpp"
#include "server/http/message.hpp"

namespace reprofuse::server {

// httplib's own sockets, threads and routes are not used: this is its server for the requests of one connection.
class HttpConnection final : private httplib::Server, private Client {
 public:
  // The stream and the handler must outlive it.
  HttpConnection(ConnectionStream& stream, HttpHandler& handler, const ConnectionLimits& limits);

  void serve(
      const Flag& stop) noexcept;  // until the client leaves, an answer ends the connection or the flag is raised

 private:
  bool gone() const override { return stream_.client_gone(); }

  bool serve_one();                             // false: the connection is over
  void take_header(httplib::Request& request);  // complete, and nothing of the body read
  bool read_body(const httplib::ContentReader& reader);
  void read_and_answer(const httplib::ContentReader& reader, httplib::Response& to);
  HttpResponse ask();
  HttpResponse unread_body() const;              // the answer to a body that could not be read
  HttpResponse broken_header(int status) const;  // the answer to a header that httplib did not take
  void write_to(httplib::Response& to, HttpResponse response);
  void end_header(httplib::Response& to);

  ConnectionStream& stream_;
  HttpHandler& handler_;
  const ConnectionLimits& limits_;

  // Of the request at hand.
  HttpRequest request_;
  RequestRecord record_;
  std::optional<HttpResponse> refusal_;
  bool has_header_ = false;
  bool ends_connection_ = true;  // among others because of a body that is not read, and so would be the next request,
  bool in_chunks_ = false;       // or of one in chunks, of whose end others may have another notion
  bool body_too_large_ = false;
  bool is_http10_ = false;
};

// The whole of an answer, for a client that gets it without having been read.
std::string raw_response(const HttpResponse& response);

}  // namespace reprofuse::server
