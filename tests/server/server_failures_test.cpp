// What a client is told when an answer fails midway: a model whose second step overflows.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "server/server_test_support.hpp"
#include "support/files.hpp"

namespace reprofuse::server {
namespace {

namespace fs = std::filesystem;

// The bundled model, but for two tokens whose embeddings are +1e30 and -1e30 throughout. The head is the embedding, so
// one of them is the first token of every greedy answer, and the squares of its values are beyond FP32.
class OverflowingModel {
 public:
  OverflowingModel() {
    const std::string name = "model.safetensors";
    for (const auto& entry : fs::directory_iterator(REPROFUSE_BUNDLED_MODEL))
      if (entry.path().filename() != name)
        fs::create_symlink(entry.path(), folder_.file(entry.path().filename().string()));
    std::string file = read_whole_file(std::string(REPROFUSE_BUNDLED_MODEL) + "/" + name);
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
    const Json header = Json::parse(file.substr(sizeof(header_bytes), header_bytes));
    const Json& embedding = header["model.embed_tokens.weight"];
    EXPECT_EQ(embedding["dtype"], "BF16");
    const std::size_t columns = embedding["shape"][1];
    const std::size_t begin = sizeof(header_bytes) + header_bytes + embedding["data_offsets"][0].get<std::size_t>();
    for (const std::uint16_t bits : {std::uint16_t{0x714A}, std::uint16_t{0xF14A}})  // 1e30 and -1e30 in BF16
      for (std::size_t column = 0; column < columns; ++column) {
        const std::size_t row = bits == 0x714A ? 5 : 6;
        std::memcpy(file.data() + begin + (row * columns + column) * sizeof(bits), &bits, sizeof(bits));
      }
    write_file(folder_.file(name), file);
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

class FailingAnswers : public testing::Test {
 protected:
  FailingAnswers() { server_->serve_model(served_); }

  static Json request(int max_tokens, bool stream) {
    return {{"prompt", {7, 8}}, {"max_tokens", max_tokens}, {"ignore_eos", true}, {"stream", stream}};
  }

  OverflowingModel model_;
  std::shared_ptr<ServedModel> served_ =
      load_model([&](ServedModelOptions& options) { options.folder = model_.path(); });
  TestServer server_;
};

TEST_F(FailingAnswers, AreA500AndOthersGoOn) {
  auto client = server_.client();
  const auto failed = post(client, "/v1/completions", request(2, false));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status, 500) << failed->body;
  EXPECT_TRUE(contains(failed->body, "not finite") || contains(failed->body, "inf")) << failed->body;
  EXPECT_EQ(post(client, "/v1/completions", request(1, false))->status, 200);
  EXPECT_EQ(client.Get("/health")->status, 200);
  EXPECT_TRUE(contains(client.Get("/metrics")->body, "finished_reason=\"error\"} 1\n"));
}

TEST_F(FailingAnswers, EndAStreamWithAnErrorAndWithoutDone) {
  auto client = server_.client();
  const auto whole = post(client, "/v1/completions", request(1, true));
  ASSERT_TRUE(whole);
  EXPECT_TRUE(contains(whole->body, "data: [DONE]\n\n")) << whole->body;
  const auto failed = post(client, "/v1/completions", request(2, true));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status, 200);
  EXPECT_TRUE(contains(failed->body, "\"choices\"")) << failed->body;
  const std::string last = failed->body.substr(failed->body.rfind("data: "));
  EXPECT_EQ(last.find("data: {\"error\":{\"message\":"), 0U) << failed->body;
  EXPECT_FALSE(contains(failed->body, "[DONE]")) << failed->body;
  ASSERT_TRUE(soon([&] { return server_.log_entries().size() == 2; }));
  EXPECT_EQ(server_.log_entries()[1].note, "an answer failed");
}

// A client that reads gets an answer of any size; one that waits for all of it at once takes its memory till then.
TEST(AnswersWithoutMemory, AreA503AndStreamsNeedLittle) {
  const std::shared_ptr<ServedModel> model = load_model();
  TestServer server([](ServerOptions& options) { options.limits.reply_bytes = std::size_t{512} << 10; });
  server->serve_model(model);
  auto client = server.client();
  Json request = {{"prompt", "a"},  {"n", 8},         {"max_tokens", 200}, {"ignore_eos", true},
                  {"logprobs", 20}, {"digest", true}, {"temperature", 1}};
  const auto refused = post(client, "/v1/completions", request);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503) << refused->body;
  EXPECT_TRUE(contains(refused->body, "\"out_of_memory\"")) << refused->body;
  EXPECT_EQ(refused->get_header_value("Retry-After"), "1");
  request["stream"] = true;
  const auto streamed = post(client, "/v1/completions", request);
  ASSERT_TRUE(streamed);
  EXPECT_TRUE(contains(streamed->body, "[DONE]")) << streamed->body.substr(streamed->body.size() - 300);
  EXPECT_GT(streamed->body.size(), std::size_t{1} << 20) << "it was large";

  // One event that is too large by itself.
  const Json echoed = {{"prompt", std::vector<int>(700, 84)},
                       {"echo", true},
                       {"logprobs", 20},
                       {"n", 1},
                       {"max_tokens", 1},
                       {"stream", true}};
  const auto failed = post(client, "/v1/completions", echoed);
  ASSERT_TRUE(failed);
  EXPECT_TRUE(contains(failed->body, "\"out_of_memory\"")) << failed->body.substr(0, 300);
  EXPECT_FALSE(contains(failed->body, "[DONE]"));

  EXPECT_EQ(post(client, "/v1/completions", {{"prompt", "a"}, {"max_tokens", 2}})->status, 200);
  EXPECT_TRUE(soon([&] {
    return contains(client.Get("/metrics")->body, "reply_memory_bytes{model_name=\"arithmetic-7m\"} 0\n");
  })) << client.Get("/metrics")->body;
}

}  // namespace
}  // namespace reprofuse::server
