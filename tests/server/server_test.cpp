// The server as clients that behave meet it: routes, answers, streams, errors, metrics.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "reprofuse/error.hpp"
#include "server/server_test_support.hpp"

namespace reprofuse::server {
namespace {

class ServerTest : public testing::Test {
 protected:
  ServerTest() { server_->serve_model(model_); }

  // The data of all events of a stream.
  std::vector<std::string> events_of(const std::string& path, Json body) {
    body["stream"] = true;
    auto client = server_.client();
    const auto result = post(client, path, body);
    EXPECT_TRUE(result) << httplib::to_string(result.error());
    EXPECT_EQ(result->get_header_value("Content-Type"), "text/event-stream; charset=utf-8");
    std::vector<std::string> events;
    std::string_view rest = result->body;
    for (std::size_t end = rest.find("\n\n"); end != std::string_view::npos; end = rest.find("\n\n")) {
      EXPECT_EQ(rest.substr(0, 6), "data: ");
      events.emplace_back(rest.substr(6, end - 6));
      rest.remove_prefix(end + 2);
    }
    EXPECT_EQ(rest, "");
    return events;
  }

  std::shared_ptr<ServedModel> model_ = load_model();
  Json golden_ = Json::parse(std::ifstream(REPROFUSE_GOLDEN_ANSWERS));
  Json question_ = {{"messages", {{{"role", "user"}, {"content", golden_["question"]}}}}, {"digest", true}};
  TestServer server_;
};

TEST_F(ServerTest, ToldOfBeforeAndAfterTheModelIsLoaded) {
  TestServer loading;
  auto client = loading.client();
  const auto before = client.Get("/health");
  ASSERT_TRUE(before);
  EXPECT_EQ(before->status, 503);
  EXPECT_EQ(before->get_header_value("Retry-After"), "1");
  EXPECT_EQ(error_code(before), "\"loading\"");
  EXPECT_EQ(error_code(client.Get("/v1/models")), "\"loading\"");
  EXPECT_EQ(client.Get("/version")->body, R"({"version":"0.0.0"})");
  EXPECT_EQ(client.Get("/metrics")->status, 200);
  loading->serve_model(model_);
  const auto after = client.Get("/health");
  EXPECT_EQ(after->status, 200);
  EXPECT_EQ(after->body, R"({"status":"ok"})");
}

TEST_F(ServerTest, ListsItsModelWithItsFingerprint) {
  auto client = server_.client();
  const auto result = client.Get("/v1/models");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
  const Json list = Json::parse(result->body);
  EXPECT_EQ(list["data"][0]["id"], "arithmetic-7m");
  EXPECT_EQ(list["data"][0]["system_fingerprint"], model_->facts().fingerprint);
  EXPECT_EQ(model_->facts().fingerprint.find("fma-1-"), 0U);
  EXPECT_EQ(Json::parse(client.Get("/v1/models/arithmetic-7m")->body), list["data"][0]);
  EXPECT_EQ(client.Get("/v1/models/another")->status, 404);
}

TEST_F(ServerTest, AChatHasTheGoldenTextAndDigest) {
  auto client = server_.client();
  const auto result = post(client, "/v1/chat/completions", question_, {{"X-Request-Id", "from-the-test"}});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->status, 200) << result->body;
  const Json answer = Json::parse(result->body);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], golden_["text"]);
  EXPECT_EQ(answer["choices"][0]["digest"], golden_["tree_digests"]["fma-1"]);
  question_["digest"] = "chain-1";
  const auto chained = post(client, "/v1/chat/completions", question_);
  ASSERT_TRUE(chained);
  EXPECT_EQ(Json::parse(chained->body)["choices"][0]["digest"], golden_["digests"]["fma-1"]);
  EXPECT_EQ(answer["system_fingerprint"], model_->facts().fingerprint);
  EXPECT_EQ(answer["id"], "chatcmpl-from-the-test");
  EXPECT_EQ(result->get_header_value("X-Request-Id"), "from-the-test");
  ASSERT_TRUE(soon([&] { return !server_.log_entries().empty(); }));
  const RequestLogEntry entry = server_.log_entries()[0];
  EXPECT_EQ(entry.prompt_tokens, static_cast<std::int64_t>(golden_["prompt_tokens"].size()));
  EXPECT_EQ(entry.path, "/v1/chat/completions");
  EXPECT_EQ(entry.status, 200);
}

TEST_F(ServerTest, AStreamCarriesTheSameTextAndDigestAndEndsWithUsageAndDone) {
  question_["stream_options"] = {{"include_usage", true}};
  const std::vector<std::string> events = events_of("/v1/chat/completions", question_);
  ASSERT_GT(events.size(), 3U);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  std::string digest;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    const Json choice = Json::parse(events[i])["choices"][0];
    if (choice["delta"].contains("content")) text += choice["delta"]["content"].get<std::string>();
    if (choice.contains("digest")) digest = choice["digest"];
  }
  EXPECT_EQ(text, golden_["text"]);
  EXPECT_EQ(digest, golden_["tree_digests"]["fma-1"]);
  const Json usage = Json::parse(events[events.size() - 2]);
  EXPECT_EQ(usage["usage"]["prompt_tokens"], golden_["prompt_tokens"].size());
}

TEST_F(ServerTest, PromptsOfABatchAreAnsweredInTheirOrderAndAsTheyAreAlone) {
  auto client = server_.client();
  const Json prompts = {"1 + 1", "Tom has 3 boxes", "2", "How many"};
  const auto ask = [&](const Json& prompt) {
    const auto result = post(client, "/v1/completions", {{"prompt", prompt}, {"max_tokens", 8}, {"digest", true}});
    return Json::parse(result->body)["choices"];
  };
  const Json together = ask(prompts);
  ASSERT_EQ(together.size(), prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Json alone = ask(prompts[i])[0];
    alone["index"] = i;
    EXPECT_EQ(together[i], alone) << prompts[i];
  }
  const auto events = events_of("/v1/completions", {{"prompt", prompts}, {"max_tokens", 8}});
  std::vector<std::string> texts(prompts.size());
  for (const std::string& event : events) {
    const Json chunk = Json::parse(event == "[DONE]" ? R"({"choices": []})" : event);
    for (const Json& choice : chunk["choices"]) texts.at(choice["index"]) += choice["text"].get<std::string>();
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(texts[i], together[i]["text"]);
}

TEST_F(ServerTest, TokenizesAndDetokenizes) {
  auto client = server_.client();
  const auto tokens = Json::parse(post(client, "/tokenize", {{"prompt", "Tom has 3"}})->body)["tokens"];
  ASSERT_FALSE(tokens.empty());
  const auto text = Json::parse(post(client, "/detokenize", {{"tokens", tokens}})->body)["prompt"];
  EXPECT_TRUE(contains(text, "Tom has 3")) << text;
}

TEST_F(ServerTest, ErrorsAreOpenAisObjectsWithTheirStatus) {
  auto client = server_.client();
  const auto wrong = post(client, "/v1/completions", {{"prompt", "x"}, {"temperature", "hot"}});
  EXPECT_EQ(wrong->status, 400);
  EXPECT_EQ(Json::parse(wrong->body)["error"]["param"], "temperature");
  const auto unknown = client.Get("/v2/models");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(error_code(unknown), "\"not_found\"");
  EXPECT_TRUE(contains(unknown->body, "nothing at '/v2/models'; there are /v1/models, /v1/completions, "))
      << unknown->body;
  const auto method = client.Get("/v1/completions");
  EXPECT_EQ(method->status, 405);
  EXPECT_EQ(method->get_header_value("Allow"), "POST");
  EXPECT_EQ(error_code(method), "\"method_not_allowed\"");
  EXPECT_EQ(client.Delete("/v1/models")->get_header_value("Allow"), "GET, HEAD");
  EXPECT_EQ(client.Post("/", "{}", "application/json")->status, 405);
  EXPECT_EQ(client.Options("/v1/models")->status, 405);
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"})
    EXPECT_EQ(client.Post("/v1/completions", R"({"prompt": "x"})", type)->status, 415) << type;
  EXPECT_TRUE(contains(client.Post("/v1/completions", "{}", "text/plain")->body, "Content-Type is 'text/plain'"));
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt": "x"})", "Application/JSON; charset=utf-8")->status, 200);
  EXPECT_EQ(client.Post("/v1/completions", "{", "application/json")->status, 400);
}

TEST_F(ServerTest, AFullQueueIs429AndACallThatNeverFitsA400) {
  TestServer small;
  small->serve_model(load_model(
      [](ServedModelOptions& options) { options.service.max_queue = options.service.max_answers_per_client = 65; }));
  auto client = small.client();
  const auto never = post(client, "/v1/completions", {{"prompt", {"x", "y"}}, {"n", 33}});
  EXPECT_EQ(never->status, 400);
  EXPECT_TRUE(contains(never->body, "66 answers at once, and at most 65 are ever under way (max_queue)"))
      << never->body;
  EXPECT_EQ(Json::parse(never->body)["error"]["param"], "n");
  const auto prompts = post(client, "/v1/completions", {{"prompt", std::vector<std::string>(66, "x")}});
  EXPECT_EQ(prompts->status, 400);
  EXPECT_EQ(Json::parse(prompts->body)["error"]["param"], "prompt");
  RawClient first(small.port());
  first.send(post_text("/v1/completions", endless_completion(true).dump()));
  EXPECT_TRUE(contains(first.read("data: "), "200 OK"));
  const auto later = post(client, "/v1/completions", {{"prompt", "x"}, {"n", 2}});
  EXPECT_EQ(later->status, 429);
  EXPECT_EQ(later->get_header_value("Retry-After"), "1");
  first.close();
  EXPECT_TRUE(soon([&] { return post(client, "/v1/completions", {{"prompt", "x"}, {"n", 2}})->status == 200; }));
}

// A client is a key, or an address where there is none.
TEST_F(ServerTest, AClientThatHasItsPartOfTheQueueIsRefusedAndOthersAreNot) {
  const auto model = load_model([](ServedModelOptions& options) { options.service.max_answers_per_client = 65; });
  const Json two = {{"prompt", "x"}, {"n", 2}};
  for (const bool has_keys : {true, false}) {
    TestServer server([&](ServerOptions& options) {
      if (has_keys) options.api_keys = {"first-key", "second-key"};
    });
    server->serve_model(model);
    RawClient many(server.port());
    many.send(post_text("/v1/completions", endless_completion(true).dump(), "Authorization: Bearer first-key\r\n"));
    EXPECT_TRUE(contains(many.read("data: "), "200 OK"));
    auto client = server.client();
    client.set_bearer_token_auth("first-key");
    const auto refused = post(client, "/v1/completions", two);
    EXPECT_EQ(refused->status, 429);
    EXPECT_EQ(error_code(refused), "\"client_limit\"");
    EXPECT_EQ(refused->get_header_value("Retry-After"), "1");
    client.set_bearer_token_auth("second-key");
    EXPECT_EQ(post(client, "/v1/completions", two)->status, has_keys ? 200 : 429);
    const auto never = post(client, "/v1/completions", {{"prompt", "x"}, {"n", 66}});
    EXPECT_EQ(never->status, 400);
    EXPECT_TRUE(contains(never->body, "(max_answers_per_client)")) << never->body;
    many.close();
    client.set_bearer_token_auth("first-key");
    EXPECT_TRUE(soon([&] { return post(client, "/v1/completions", two)->status == 200; }));
  }
}

TEST_F(ServerTest, WhatOthersAskedIsToldOnlyIfTheServerIsToldTo) {
  const Json question = {{"prompt", std::vector<int>(200, 7)}, {"max_tokens", 1}};
  const auto second_usage = [&](TestServer& server) {
    server->serve_model(model_);
    auto client = server.client();
    EXPECT_EQ(post(client, "/v1/completions", question)->status, 200);
    return Json::parse(post(client, "/v1/completions", question)->body)["usage"];
  };
  TestServer silent;
  EXPECT_FALSE(second_usage(silent).contains("prompt_tokens_details"));
  TestServer frank([](ServerOptions& options) { options.rules.report_cached_tokens = true; });
  EXPECT_EQ(second_usage(frank)["prompt_tokens_details"]["cached_tokens"], 192);
}

// How long an answer takes tells whether its prompt was there already.
TEST_F(ServerTest, KeysAndSaltsShareNoPrefixWithEachOther) {
  TestServer server([](ServerOptions& options) {
    options.rules.report_cached_tokens = true;
    options.api_keys = {"first-key", "second-key"};
  });
  server->serve_model(model_);
  auto client = server.client();
  const auto cached = [&](const std::string& key, const std::string& salt) -> int {
    const Json question = {{"prompt", std::vector<int>(200, 9)}, {"max_tokens", 1}, {"cache_salt", salt}};
    const auto result = post(client, "/v1/completions", question, {{"Authorization", "Bearer " + key}});
    return Json::parse(result->body)["usage"]["prompt_tokens_details"]["cached_tokens"];
  };
  for (const char* key : {"first-key", "second-key"})
    for (const char* salt : {"", "a"}) {
      EXPECT_EQ(cached(key, salt), 0) << key << " " << salt;
      EXPECT_EQ(cached(key, salt), 192) << key << " " << salt;
    }
}

TEST_F(ServerTest, OnlyWhatIsLookedForInThePrefixCacheCounts) {
  const auto queries = [](bool prefix_cache, const Json& more = Json::object()) {
    TestServer server;
    server->serve_model(load_model([&](ServedModelOptions& options) { options.engine.prefix_cache = prefix_cache; }));
    auto client = server.client();
    Json question = {{"prompt", {5, 6, 7}}, {"max_tokens", 1}};
    question.update(more);
    EXPECT_EQ(post(client, "/v1/completions", question)->status, 200);
    const std::string text = client.Get("/metrics")->body;
    const std::string name = "reprofuse:prefix_cache_queries_total{model_name=\"arithmetic-7m\"} ";
    return text.substr(text.find(name) + name.size(), 2);
  };
  EXPECT_EQ(queries(true), "3\n");
  EXPECT_EQ(queries(false), "0\n");
  EXPECT_EQ(queries(true, {{"prompt_logprobs", 0}}), "0\n") << "likelihoods of a prompt are computed anew";
}

TEST_F(ServerTest, ThePageIsServedAndMayLoadNothingFromElsewhere) {
  auto client = server_.client();
  const auto page = client.Get("/");
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_TRUE(contains(page->get_header_value("Content-Security-Policy"), "default-src 'self'"));
  EXPECT_EQ(client.Get("/index.html")->body, page->body);
  const auto head = client.Head("/");
  EXPECT_EQ(head->body, "");
  EXPECT_EQ(head->get_header_value("Content-Length"), std::to_string(page->body.size()));
}

TEST_F(ServerTest, MetricsCountWhatWasAsked) {
  auto client = server_.client();
  ASSERT_EQ(post(client, "/v1/completions", {{"prompt", {5, 6, 7}}, {"max_tokens", 4}, {"n", 2}, {"ignore_eos", true}})
                ->status,
            200);
  const auto result = client.Get("/metrics");
  EXPECT_EQ(result->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  const std::string& text = result->body;
  for (const char* line : {
           "# TYPE reprofuse:num_requests_running gauge\n",
           "reprofuse:num_requests_running{model_name=\"arithmetic-7m\"} 0\n",
           "reprofuse:num_requests_waiting{model_name=\"arithmetic-7m\"} 0\n",
           "# TYPE reprofuse:kv_cache_usage_perc gauge\n",
           "reprofuse:generation_tokens_total{model_name=\"arithmetic-7m\"} 8\n",
           "reprofuse:num_preemptions_total{model_name=\"arithmetic-7m\"} 0\n",
           "reprofuse:num_ranks{model_name=\"arithmetic-7m\"} 1\n",
           "reprofuse:prefix_cache_hits_total{model_name=\"arithmetic-7m\"} 0\n",
           "reprofuse:request_success_total{model_name=\"arithmetic-7m\",finished_reason=\"length\"} 2\n",
           "reprofuse:request_success_total{model_name=\"arithmetic-7m\",finished_reason=\"abort\"} 0\n",
           "reprofuse:time_to_first_token_seconds_count{model_name=\"arithmetic-7m\"} 2\n",
           "reprofuse:inter_token_latency_seconds_count{model_name=\"arithmetic-7m\"} 6\n",
           "reprofuse:e2e_request_latency_seconds_count{model_name=\"arithmetic-7m\"} 1\n",
       })
    EXPECT_TRUE(contains(text, line)) << line << "is not in\n" << text;
  // The one that asks; those before it are closed, but their threads may not have ended yet.
  EXPECT_TRUE(soon([&] {
    return contains(client.Get("/metrics")->body, "reprofuse:num_connections{model_name=\"arithmetic-7m\"} 1\n");
  }));
}

TEST_F(ServerTest, WithoutABudgetTheCacheHoldsAWholeBatchOfTheLongestTexts) {
  const auto served = load_model([](ServedModelOptions& options) {
    options.kv_bytes.reset();
    options.max_positions = 200;
    options.engine.max_batch = 3;
    options.engine.page_size = 32;
  });
  EXPECT_EQ(served->service().engine().options().kv_pages, 3 * 7);  // 200 tokens are 7 pages
  EXPECT_EQ(served->facts().max_positions, 200);
  EXPECT_EQ(served->kv_summary().find("21 pages of 32 tokens: 672 tokens in "), 0U) << served->kv_summary();
  EXPECT_THROW(load_model([](ServedModelOptions& options) { options.kv_bytes = 1000; }), Error);
}

TEST_F(ServerTest, WhatIsUnderWayIsFinishedAndNothingNewIsTaken) {
  TestServer server;
  server->serve_model(load_model());
  RawClient idle(server.port());
  idle.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(contains(idle.read("\"ok\"}"), "200 OK"));
  RawClient streaming(server.port());
  streaming.send(post_text(
      "/v1/completions", Json{{"prompt", "Tom"}, {"max_tokens", 150}, {"ignore_eos", true}, {"stream", true}}.dump()));
  EXPECT_TRUE(contains(streaming.read("data: "), "200 OK"));
  bool drained = false;
  std::thread drainer([&] { drained = server->drain(kPatience); });
  EXPECT_EQ(idle.read(), "") << "a connection without a request is closed";
  const std::string rest = streaming.read();
  EXPECT_TRUE(contains(rest, "data: [DONE]\n\n")) << rest;
  drainer.join();
  EXPECT_TRUE(drained);
  EXPECT_FALSE(RawClient(server.port()).connected());
}

TEST_F(ServerTest, WhatIsBrokenOffIsTheServersFaultAndEndsInAnError) {
  TestServer server;
  server->serve_model(model_);
  RawClient streaming(server.port());
  streaming.send(post_text("/v1/completions", endless_completion(true).dump()));
  EXPECT_TRUE(contains(streaming.read("data: "), "200 OK"));
  RawClient waiting(server.port());
  waiting.send(post_text("/v1/completions", endless_completion(false).dump()));
  EXPECT_TRUE(soon([&] { return model_->service().stats().waiting >= 64; }));
  EXPECT_FALSE(server->drain(milliseconds(300)));
  server->break_off(kPatience);
  const std::string rest = streaming.read();
  const std::string last = rest.substr(rest.rfind("data: "));
  EXPECT_EQ(last.find(R"(data: {"error":{"message":"the engine was stopped before the answer was complete",)"), 0U)
      << last;
  EXPECT_TRUE(contains(last, R"("code":"stopped")")) << last;
  EXPECT_FALSE(contains(rest, "[DONE]")) << rest;
  EXPECT_EQ(waiting.read().find("HTTP/1.1 503"), 0U);
  ASSERT_TRUE(soon([&] { return server.log_entries().size() == 2; }));
  for (const RequestLogEntry& entry : server.log_entries())
    EXPECT_EQ(entry.note, entry.status == 200 ? "broken off: the server stopped" : "stopped");
}

}  // namespace
}  // namespace reprofuse::server
