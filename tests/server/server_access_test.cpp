// Who may ask, and by which name: keys, sites of others, addresses, request ids.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "reprofuse/error.hpp"
#include "server/server_test_support.hpp"

namespace reprofuse::server {
namespace {

class ServerAccess : public testing::Test {
 protected:
  ServerAccess() { server_->serve_model(model_); }

  std::shared_ptr<ServedModel> model_ = load_model();
  TestServer server_;
};

TEST_F(ServerAccess, KeysGuardWhatCostsAndNothingElse) {
  TestServer guarded([](ServerOptions& options) { options.api_keys = {"first-key", "second.key"}; });
  guarded->serve_model(model_);
  auto client = guarded.client();
  for (const char* path : {"/v1/models", "/v1/models/arithmetic-7m"}) {
    const auto result = client.Get(path);
    EXPECT_EQ(result->status, 401) << path;
    EXPECT_EQ(result->get_header_value("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(error_code(result), "\"invalid_api_key\"");
    EXPECT_TRUE(contains(result->body, "this server wants an API key")) << result->body;
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"})
    EXPECT_EQ(post(client, path, {{"prompt", "x"}})->status, 401) << path;
  for (const char* header : {"Bearer first-ke", "Bearer first-keyy", "Bearer ", "first-key", "Basic first-key"})
    EXPECT_EQ(client.Get("/v1/models", {{"Authorization", header}})->status, 401) << header;
  EXPECT_TRUE(contains(client.Get("/v1/models", {{"Authorization", "Bearer guess"}})->body, "does not hold"));
  for (const char* header : {"Bearer first-key", "Bearer second.key"})
    EXPECT_EQ(client.Get("/v1/models", {{"Authorization", header}})->status, 200) << header;
  for (const char* path : {"/health", "/version", "/"}) EXPECT_EQ(client.Get(path)->status, 200) << path;
  EXPECT_EQ(client.Get("/metrics")->status, 401) << "which tell how much others ask";
  EXPECT_EQ(client.Get("/metrics", {{"Authorization", "bearer first-key"}})->status, 200);
  TestServer frank([](ServerOptions& options) {
    options.api_keys = {"first-key"};
    options.metrics_without_key = true;
  });
  EXPECT_EQ(frank.client().Get("/metrics")->status, 200);
  EXPECT_THROW(ApiKeys({"two words"}), Error);
  EXPECT_THROW(ApiKeys({""}), Error);
}

TEST_F(ServerAccess, OtherSitesMayAskOnlyWhenNamed) {
  const httplib::Headers preflight = {{"Origin", "https://example.org"},
                                      {"Access-Control-Request-Method", "POST"},
                                      {"Access-Control-Request-Headers", "authorization,content-type"}};
  auto closed = server_.client();
  EXPECT_FALSE(closed.Get("/health", preflight)->has_header("Access-Control-Allow-Origin"));
  TestServer open([](ServerOptions& options) { options.allowed_origins = {"https://example.org"}; });
  open->serve_model(model_);
  RawClient raw(open.port());
  raw.send(
      "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: https://example.org\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n");
  const std::string allowed = raw.read("\r\n\r\n");
  EXPECT_TRUE(contains(allowed, "HTTP/1.1 204")) << allowed;
  EXPECT_TRUE(contains(allowed, "Access-Control-Allow-Origin: https://example.org\r\n")) << allowed;
  EXPECT_TRUE(contains(allowed, "Access-Control-Allow-Headers: authorization\r\n")) << allowed;
}

// An origin is compared as a whole: what begins or ends like one that is allowed is another site.
TEST(Cors, AnOriginIsAllowedAsAWholeOrNotAtAll) {
  const Cors cors({"https://example.org", "http://localhost:3000"});
  const auto is_allowed = [&](const std::string& origin) {
    HttpRequest request;
    request.method = "OPTIONS";
    request.headers = {{"origin", origin}, {"access-control-request-method", "POST"}};
    HttpResponse response;
    cors.decorate(request, response);
    const std::pair<std::string, std::string> permission("Access-Control-Allow-Origin", origin);
    const bool names_it = std::count(response.headers.begin(), response.headers.end(), permission) == 1;
    EXPECT_EQ(names_it, cors.preflight(request).has_value()) << origin;
    return names_it;
  };
  for (const char* origin : {"https://example.org", "http://localhost:3000"}) EXPECT_TRUE(is_allowed(origin)) << origin;
  for (const char* origin :
       {"https://example.org.evil.net", "https://example.org:8443", "https://example.or", "https://example.com",
        "http://example.org", "https://evil.net/https://example.org", "xhttps://example.org", "https://EXAMPLE.org",
        "http://localhost:30000", "http://localhost:300", "http://localhost", "null", ""})
    EXPECT_FALSE(is_allowed(origin)) << origin;
}

TEST_F(ServerAccess, AnOriginIsWrittenAsBrowsersSendIt) {
  for (const char* origin : {"*", "https://example.org", "http://localhost:3000", "http://[::1]:8000",
                             "chrome-extension://abcdefgh", "https://example.org:8443"})
    EXPECT_NO_THROW(Cors({origin})) << origin;
  for (const char* origin :
       {"foo", "", "example.org", "https://example.org/", "https://Example.org", "https://", "https://example.org:443",
        "http://example.org:80", "https://a b", "https://a/path", "https://user@a", "https://*.example.org"})
    EXPECT_THROW(Cors({origin}), Error) << origin;
}

TEST_F(ServerAccess, WithoutAKeyItAnswersToNoNameThatASiteCouldHave) {
  auto client = server_.client();
  for (const char* host :
       {"example.org", "example.org:8000", "localhost.example.org", "127.0.0.1.example.org", "test"}) {
    EXPECT_EQ(error_code(client.Get("/", {{"Host", host}})), "\"wrong_host\"") << host;
    const auto refused = client.Get("/v1/models", {{"Host", host}});
    EXPECT_EQ(refused->status, 403) << host;
    EXPECT_TRUE(contains(refused->body, std::string("the header Host is '") + host + "'")) << refused->body;
  }
  for (const char* host : {"localhost", "LocalHost:8000", "127.0.0.1:8000", "[::1]:8000"})
    EXPECT_EQ(client.Get("/v1/models", {{"Host", host}})->status, 200) << host;
  TestServer guarded([](ServerOptions& options) { options.api_keys = {"key"}; });
  auto named = guarded.client();
  EXPECT_EQ(named.Get("/version", {{"Host", "example.org"}})->status, 200);
}

TEST_F(ServerAccess, RequestIdsAreTakenOnlyIfTheyAreHarmless) {
  auto client = server_.client();
  EXPECT_EQ(client.Get("/health", {{"X-Request-Id", "a-1:b.c_D"}})->get_header_value("X-Request-Id"), "a-1:b.c_D");
  for (const std::string& id : {std::string("two words"), std::string("%0d%0aEvil: 1"), std::string(200, 'a')}) {
    const auto result = client.Get("/health", {{"X-Request-Id", id}});
    EXPECT_EQ(result->get_header_value("X-Request-Id").size(), 32U) << id;
    EXPECT_FALSE(result->has_header("Evil"));
  }
}

TEST_F(ServerAccess, AnAddressThatOthersReachNeedsAKey) {
  const auto error_with = [](const std::function<void(ServerOptions&)>& change) -> std::string {
    try {
      const TestServer server(change);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_TRUE(contains(error_with([](ServerOptions& options) { options.host = "0.0.0.0"; }), "there is no key"));
  EXPECT_TRUE(contains(error_with([](ServerOptions& options) { options.host = "no such host"; }), "has no address"));
  EXPECT_TRUE(contains(error_with([&](ServerOptions& options) { options.port = server_.port(); }),
                       "Address already in use; another program listens there"));
  EXPECT_EQ(error_with([](ServerOptions& options) {
              options.host = "0.0.0.0";
              options.api_keys = {"key"};
            }),
            "");
  EXPECT_EQ(error_with([](ServerOptions& options) {
              options.host = "0.0.0.0";
              options.public_without_key = true;
            }),
            "");
}

}  // namespace
}  // namespace reprofuse::server
