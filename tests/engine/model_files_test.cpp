// What a checkpoint folder says of its text, its ends and its sampling, and what happens when a part of it is missing.
#include "engine/model_files.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "engine/engine_case.hpp"
#include "support/files.hpp"
#include "support/json.hpp"
#include "support/messages.hpp"

namespace reprofuse::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const std::string kModel = REPROFUSE_BUNDLED_MODEL;

// The bundled model in a folder of its own, whose files a test may remove or rewrite.
class ModelFilesTest : public testing::Test {
 protected:
  ModelFilesTest() {
    for (const auto& entry : fs::directory_iterator(kModel))
      fs::create_symlink(entry.path(), folder_.file(entry.path().filename().string()));
  }
  void remove(const std::string& file) { fs::remove(folder_.file(file)); }
  void rewrite(const std::string& file, const std::string& contents) {
    remove(file);
    write_file(folder_.file(file), contents);
  }
  void edit(const std::string& file, const std::string& changes) {
    rewrite(file, edited(read_whole_file(kModel + "/" + file), changes));
  }
  std::vector<std::int32_t> prompt_ids() const { return ModelFiles(folder_.path()).text().encode_prompt("12"); }
  std::string prompt_error() const {
    return error_of([&] { prompt_ids(); });
  }
  std::string chat_error() const {
    return error_of([&] { ModelFiles(folder_.path()).text().render_chat(messages_, {}); });
  }

  TemporaryFolder folder_;
  ordered_json golden_ = ordered_json::parse(read_whole_file(REPROFUSE_GOLDEN_ANSWERS));
  ordered_json messages_ = {{{"role", "user"}, {"content", golden_["question"]}}};
};

TEST_F(ModelFilesTest, TheBundledModelIsFoundAndComplete) {
  EXPECT_TRUE(fs::equivalent(bundled_model_folder(), kModel));
  const ModelFiles files(kModel);
  EXPECT_TRUE(files.text().has_chat_template()) << files.text().why_no_chat_template();
  EXPECT_EQ(files.text().has_tokenizer(), REPROFUSE_HAVE_TEXT == 1) << files.text().why_no_tokenizer();
  EXPECT_EQ(files.stop_tokens(), (std::vector<std::int32_t>{1023, 1020}));
  EXPECT_EQ(files.suggested_sampling().temperature, 0.0F);
  EXPECT_FALSE(files.text().template_uses_date());
}

// The embedding is read while a model answers, row by row.
TEST_F(ModelFilesTest, WhatWasLoadedIsOutOfReachOfItsFileAndHasTheDigestOfWhatWasLoaded) {
  const std::string weights = read_whole_file(kModel + "/model.safetensors");
  rewrite("model.safetensors", weights);
  const ModelFiles files(folder_.path());
  const auto source = std::make_shared<model::HashedSource>(files.source());
  const model::Model model(Context::cpu(), source, 512);
  std::string other = weights;
  for (std::size_t i = other.size() / 2; i < other.size(); ++i) other[i] = static_cast<char>(other[i] ^ 1);
  std::fstream(folder_.file("model.safetensors"), std::ios::in | std::ios::out | std::ios::binary) << other;
  const Request request = golden_request();
  EXPECT_EQ(answer_alone(model, request).end->digest, model::golden_answer().digest);
  fs::resize_file(folder_.file("model.safetensors"), 4096);
  EXPECT_EQ(answer_alone(model, request).end->digest, model::golden_answer().digest);
  ThreadPool pool(2);
  const checkpoint::Checkpoint& embedded = bundled_files().checkpoint();
  EXPECT_EQ(source->manifest(), checkpoint::model_manifest(embedded, checkpoint::tensor_digests(embedded, pool)));
  const std::string error = error_of([&] { const model::Model again(Context::cpu(), files.source(), 512); });
  EXPECT_NE(error.find("model.safetensors: "), error.npos) << error;
}

TEST_F(ModelFilesTest, AFileThatIsChangedWhileItIsLoadedIsAnErrorThatSaysSo) {
  rewrite("model.safetensors", read_whole_file(kModel + "/model.safetensors"));
  const ModelFiles files(folder_.path());
  const auto source = std::make_shared<model::HashedSource>(files.source());
  bool changed = false;
  const auto change = [&](std::int64_t, std::int64_t) {
    if (std::exchange(changed, true)) return;
    fs::last_write_time(folder_.file("model.safetensors"), fs::file_time_type::clock::now() + std::chrono::hours(1));
  };
  const std::string error = error_of([&] { const model::Model model(Context::cpu(), source, 512, change); });
  EXPECT_NE(error.find("model.safetensors: was changed while it was read"), error.npos) << error;
}

TEST_F(ModelFilesTest, AQuestionBecomesTheGoldenPrompt) {
  if (REPROFUSE_HAVE_TEXT == 0) GTEST_SKIP() << "this build has no tokenizer";
  const ModelFiles files(kModel);
  EXPECT_EQ(files.text().encode_chat(messages_, {}), golden_["prompt_tokens"].get<std::vector<std::int32_t>>());
  EXPECT_EQ(files.text().tokenizer().decode(golden_["tokens"].get<std::vector<std::int32_t>>()), golden_["text"]);
}

TEST_F(ModelFilesTest, TheTemplateMayAlsoLieInTheTokenizerConfig) {
  const std::string expected = ModelFiles(kModel).text().render_chat(messages_, {});
  const std::string source = read_whole_file(kModel + "/chat_template.jinja");
  remove("chat_template.jinja");
  EXPECT_EQ(chat_error(),
            folder_.path() + " has no chat template, neither chat_template.jinja nor in tokenizer_config.json");
  edit("tokenizer_config.json", nlohmann::json{{"chat_template", source}}.dump());
  EXPECT_EQ(ModelFiles(folder_.path()).text().render_chat(messages_, {}), expected);
  const nlohmann::json named = {{{"name", "tools"}, {"template", "other"}},
                                {{"name", "default"}, {"template", source}}};
  edit("tokenizer_config.json", nlohmann::json{{"chat_template", named}}.dump());
  EXPECT_EQ(ModelFiles(folder_.path()).text().render_chat(messages_, {}), expected);
  edit("tokenizer_config.json", R"({"chat_template": [{"name": "tools", "template": "other"}]})");
  EXPECT_EQ(chat_error(), folder_.file("tokenizer_config.json") + ": chat_template has no entry named 'default'");
  edit("tokenizer_config.json", R"({"chat_template": 7})");
  EXPECT_EQ(chat_error(), folder_.file("tokenizer_config.json") + ": chat_template is 7, neither a string nor a list");
}

TEST_F(ModelFilesTest, ATemplateThatAsksForTheDateIsKnownToDoSo) {
  rewrite("chat_template.jinja", "{{ strftime_now('%d %B %Y') }}");
  const ModelFiles files(folder_.path());
  EXPECT_TRUE(files.text().template_uses_date());
  text::ChatVariables given;
  given.date = text::parse_date("2025-02-03");
  EXPECT_EQ(files.text().render_chat(messages_, given), "03 February 2025");
}

TEST_F(ModelFilesTest, WithoutATokenizerTheReasonIsTold) {
  remove("tokenizer.json");
  const ModelFiles files(folder_.path());
  EXPECT_FALSE(files.text().has_tokenizer());
  const std::string message = error_of([&] { files.text().encode_prompt("hello"); });
  EXPECT_EQ(message.find("there is no tokenizer, only token ids: "), 0U) << message;
  if (REPROFUSE_HAVE_TEXT == 1) {
    EXPECT_NE(message.find(folder_.file("tokenizer.json")), std::string::npos) << message;
  }
}

TEST_F(ModelFilesTest, WithoutATemplateTheTokenizerConfigSaysWhatGoesAroundAPrompt) {
  if (REPROFUSE_HAVE_TEXT == 0) GTEST_SKIP() << "this build has no tokenizer";
  using Ids = std::vector<std::int32_t>;
  constexpr std::int32_t kBegin = 1019, kEnd = 1023;
  Ids bare = prompt_ids();
  ASSERT_EQ(bare.front(), kBegin);
  bare.erase(bare.begin());
  const auto between = [&](Ids ids, const Ids& after) {
    ids.insert(ids.end(), bare.begin(), bare.end());
    ids.insert(ids.end(), after.begin(), after.end());
    return ids;
  };
  const char* processors[] = {R"({"post_processor": null})", R"({"post_processor": {"type": "ByteLevel"}})"};
  for (const char* processor : processors) {
    edit("tokenizer.json", processor);
    edit("tokenizer_config.json", "{}");
    EXPECT_EQ(prompt_ids(), bare) << processor;
    edit("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": null})");
    EXPECT_EQ(prompt_ids(), bare) << processor;
    edit("tokenizer_config.json", R"({"add_bos_token": true})");
    EXPECT_EQ(prompt_ids(), between({kBegin}, {})) << processor;
    edit("tokenizer_config.json", R"({"add_eos_token": true, "eos_token": {"content": "<|eot_id|>"}})");
    EXPECT_EQ(prompt_ids(), between({}, {kEnd})) << processor;
    edit("tokenizer_config.json", R"({"add_bos_token": true, "add_eos_token": true})");
    EXPECT_EQ(prompt_ids(), between({kBegin}, {kEnd})) << processor;
  }
  const ModelFiles files(folder_.path());
  EXPECT_EQ(files.text().encode_chat(messages_, {}), golden_["prompt_tokens"].get<Ids>()) << "a chat is not a prompt";
  remove("tokenizer_config.json");
  EXPECT_EQ(prompt_ids(), bare);
}

TEST_F(ModelFilesTest, TheTemplateOfTheTokenizerCountsMoreThanTheTokenizerConfig) {
  if (REPROFUSE_HAVE_TEXT == 0) GTEST_SKIP() << "this build has no tokenizer";
  const std::vector<std::int32_t> expected = prompt_ids();
  for (const char* settings :
       {R"({"add_bos_token": true})", R"({"add_bos_token": false, "add_eos_token": true})",
        R"({"add_bos_token": true, "bos_token": null})", R"({"add_bos_token": true, "bos_token": "<s>"})"}) {
    edit("tokenizer_config.json", settings);
    EXPECT_EQ(prompt_ids(), expected) << settings;
  }
}

TEST_F(ModelFilesTest, ATokenToAddThatIsNotThereIsAnError) {
  if (REPROFUSE_HAVE_TEXT == 0) GTEST_SKIP() << "this build has no tokenizer";
  const std::string begin = "there is no tokenizer, only token ids: " + folder_.file("tokenizer_config.json") + ": ";
  edit("tokenizer_config.json", R"({"add_bos_token": "yes"})");
  EXPECT_EQ(prompt_error(), begin + "add_bos_token is 'yes', not true or false") << "with a template as well";
  edit("tokenizer.json", R"({"post_processor": null})");
  edit("tokenizer_config.json", R"({"add_eos_token": 1})");
  EXPECT_EQ(prompt_error(), begin + "add_eos_token is 1, not true or false");
  edit("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": null})");
  EXPECT_EQ(prompt_error(), begin + "add_bos_token is true, but there is no bos_token");
  edit("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<s>"})");
  EXPECT_EQ(prompt_error(), begin + "add_bos_token is true, but tokenizer.json has no bos_token '<s>'");
  edit("tokenizer_config.json", R"({"add_eos_token": true, "eos_token": 7})");
  EXPECT_EQ(prompt_error(), begin + "eos_token is 7, neither a string nor an object with a string 'content'");
  rewrite("tokenizer_config.json", "{");
  EXPECT_EQ(prompt_error().find(begin + "is not valid JSON"), 0U) << prompt_error();
}

TEST_F(ModelFilesTest, ATokenizerLargerThanTheModelIsAnError) {
  if (REPROFUSE_HAVE_TEXT == 0) GTEST_SKIP() << "this build has no tokenizer";
  auto tokenizer = nlohmann::json::parse(read_whole_file(kModel + "/tokenizer.json"));
  auto added = tokenizer["added_tokens"].back();
  added["id"] = 1024;
  added["content"] = "<|one too many|>";
  tokenizer["added_tokens"].push_back(added);
  rewrite("tokenizer.json", tokenizer.dump());
  EXPECT_EQ(error_of([&] { ModelFiles(folder_.path()); }),
            folder_.path() + ": tokenizer.json has ids up to 1024, config.json a vocab_size of 1024");
}

TEST_F(ModelFilesTest, SamplingComesFromTheGenerationConfigOnlyIfItSamples) {
  edit("generation_config.json", R"({"do_sample": false, "temperature": 0.6, "top_p": 0.95})");
  EXPECT_EQ(ModelFiles(folder_.path()).suggested_sampling().temperature, 0.0F);
  edit("generation_config.json",
       R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.05,
           "repetition_penalty": 1.1})");
  const SamplingParams params = ModelFiles(folder_.path()).suggested_sampling();
  EXPECT_EQ(params.temperature, 0.6F);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.top_p, 0.95F);
  EXPECT_EQ(params.min_p, 0.05F);
  EXPECT_EQ(params.repetition_penalty, 1.1F);
}

}  // namespace
}  // namespace reprofuse::engine
