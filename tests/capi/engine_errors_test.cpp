// What the engine refuses, and answers that fail, through the C++ API and the C ABI.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>

#include "capi/support.hpp"

namespace reprofuse::capi {
namespace {

// A model whose last norm is as large as BF16 can be: loading finds nothing wrong, and its logits overflow.
class Overflowing {
 public:
  Overflowing() : folder_(std::filesystem::temp_directory_path() / ("reprofuse_overflow_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    for (const auto& file : std::filesystem::directory_iterator(REPROFUSE_BUNDLED_MODEL))
      std::filesystem::copy(file, folder_ / file.path().filename());
    std::fstream file(folder_ / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    std::uint64_t header_bytes = 0;
    for (int i = 0; i < 8; ++i) header_bytes |= static_cast<std::uint64_t>(file.get()) << (8 * i);
    std::string header(header_bytes, ' ');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    const nlohmann::json tensor = nlohmann::json::parse(header)["model.norm.weight"];
    EXPECT_EQ(tensor["dtype"], "BF16");
    const std::int64_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    file.seekp(8 + static_cast<std::streamoff>(header_bytes) + begin);
    for (std::int64_t at = begin; at < end; at += 2) file.write("\x7f\x7f", 2);
  }
  ~Overflowing() { std::filesystem::remove_all(folder_); }
  Overflowing(const Overflowing&) = delete;
  Overflowing& operator=(const Overflowing&) = delete;
  std::string folder() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

TEST(CEngine, AnAnswerThatMeetsANaNSaysThatAskingAgainIsOfNoUse) {
  const Overflowing model;
  reprofuse_context* context = nullptr;
  reprofuse_checkpoint* checkpoint = nullptr;
  reprofuse_model* loaded = nullptr;
  reprofuse_engine* engine = nullptr;
  ASSERT_EQ(reprofuse_context_create(nullptr, &context), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_checkpoint_open(model.folder().c_str(), &checkpoint), REPROFUSE_OK) << reprofuse_last_error();
  reprofuse_load_options options;
  ASSERT_EQ(reprofuse_load_options_init(&options, sizeof options), REPROFUSE_OK);
  options.max_positions = 300;
  ASSERT_EQ(reprofuse_model_load(context, checkpoint, &options, &loaded), REPROFUSE_OK) << reprofuse_last_error();
  ASSERT_EQ(reprofuse_engine_create(loaded, nullptr, &engine), REPROFUSE_OK) << reprofuse_last_error();
  std::int64_t positions = 0;
  ASSERT_EQ(reprofuse_engine_max_positions(engine, &positions), REPROFUSE_OK);
  EXPECT_EQ(positions, 300);
  EXPECT_EQ(reprofuse_engine_max_positions(nullptr, &positions), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_engine_max_positions(engine, nullptr), REPROFUSE_INVALID_ARGUMENT);
  const std::vector<std::int32_t> prompt = {1, 2, 3};
  const reprofuse_request request = c_request(prompt);
  reprofuse_answers* answers = nullptr;
  ASSERT_EQ(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_OK) << reprofuse_last_error();
  const Collected all = collect(answers);
  EXPECT_EQ(all.finish_reason, REPROFUSE_FINISH_ERROR);
  EXPECT_EQ(all.error_status, REPROFUSE_NON_FINITE);
  EXPECT_NE(all.error.find("not finite"), std::string::npos) << all.error;
  EXPECT_TRUE(all.logits_roots.empty()) << "no digest was asked for";
  reprofuse_answers_destroy(answers);
  reprofuse_engine_destroy(engine);
  reprofuse_model_destroy(loaded);
  reprofuse_checkpoint_destroy(checkpoint);
  reprofuse_context_destroy(context);
}

TEST(CppEngine, RequestsThatMakeNoSenseAreNamed) {
  const Engine engine(small_model(), {.max_batch = 1});
  const auto refused = [&](const auto& change) {
    Request request = golden_request();
    change(request);
    return thrown(ErrorCode::kInvalidArgument, [&] { (void)engine.submit(request); });
  };
  EXPECT_NE(refused([](Request& r) { r.prompt.clear(); }).find("no tokens"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.prompt[3] = -7; }).find("-7"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.max_tokens = 1 << 20; }).find("1048576"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.sampling.top_p = 2; }).find("top_p = 2"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.choices = 0; }).find("0 choices"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.logprobs = 21; }).find("21"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.sampling.temperature = NAN; }).find("temperature"), std::string::npos);
  const auto options = [](const EngineOptions& o) {
    return thrown(ErrorCode::kInvalidArgument, [&] { Engine(small_model(), o); });
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(options({.kv_bytes = 1}).find("1 bytes"), std::string::npos);
  EXPECT_NE(options({.kv_bytes = kHuge}).find("pages"), std::string::npos);
  EXPECT_EQ(options({.max_batch = kHuge}), "max_batch = 9223372036854775807 is outside 1 to 4096");
  EXPECT_EQ(options({.max_batch = 0}), "max_batch = 0 is outside 1 to 4096");
  EXPECT_EQ(options({.max_rows = kHuge}), "max_rows = 9223372036854775807 is outside 1 to 65535");
  EXPECT_NE(options({.max_queue = 0}).find("max_queue = 0"), std::string::npos);
}

TEST(CEngine, WrongStructsAndNullsAreErrors) {
  const CModel loaded;
  reprofuse_engine* engine = nullptr;
  ASSERT_EQ(reprofuse_engine_create(loaded.model, nullptr, &engine), REPROFUSE_OK);
  const std::vector<std::int32_t> prompt = golden_prompt();
  reprofuse_answers* answers = nullptr;
  reprofuse_request request = c_request(prompt);
  request.struct_size = sizeof request - 8;
  EXPECT_NE(error_text(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_INVALID_ARGUMENT).find("init"),
            std::string::npos);
  request = c_request(prompt);
  request.struct_version = 9;
  EXPECT_NE(
      error_text(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_INVALID_ARGUMENT).find("version 9"),
      std::string::npos);
  request = c_request(prompt);
  request.prompt_text = "as well";
  EXPECT_NE(
      error_text(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_INVALID_ARGUMENT).find("not both"),
      std::string::npos);
  request = c_request(prompt);
  request.stop_string_count = 1;
  EXPECT_EQ(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_engine_submit(engine, nullptr, &answers), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_engine_submit(nullptr, &request, &answers), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_engine_submit(engine, &request, nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(answers, nullptr);
  reprofuse_update update;
  EXPECT_EQ(reprofuse_answers_next(nullptr, 0, &update, sizeof update), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_answers_cancel(nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_request_init(&request, sizeof request + 1), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_request_init(nullptr, sizeof request), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_engine_options options;
  ASSERT_EQ(reprofuse_engine_options_init(&options, sizeof options), REPROFUSE_OK);
  options.speculation = 65;
  reprofuse_engine* second = nullptr;
  EXPECT_EQ(reprofuse_engine_create(loaded.model, &options, &second), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_engine_create(nullptr, nullptr, &second), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(second, nullptr);
  request = c_request(prompt);
  ASSERT_EQ(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_OK);
  EXPECT_EQ(reprofuse_answers_next(answers, -1, &update, sizeof update), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_answers_next(answers, 0, &update, sizeof update - 8), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_answers_destroy(answers);
  reprofuse_answers_destroy(nullptr);
  reprofuse_engine_destroy(engine);
  reprofuse_engine_destroy(nullptr);
}

}  // namespace
}  // namespace reprofuse::capi
