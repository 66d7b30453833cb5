// Where `reprofuse generate` takes a prompt from, and what it tells of every token.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_cli.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse {
namespace {

using Json = nlohmann::ordered_json;

class GenerateInput : public testing::Test {
 protected:
  void SetUp() override {
    if (REPROFUSE_HAVE_TEXT == 0) GTEST_SKIP() << "this build has no tokenizer";
  }
  std::string file_with(const std::string& text) {
    const std::string path = folder_.file("file" + std::to_string(files_++));
    write_file(path, text);
    return path;
  }
  Json answer(const std::string& options, const std::string& before = "") {
    const Finished run = reprofuse("generate --json --digest " + options, before);
    EXPECT_EQ(run.status, 0) << options << ": " << run.err;
    return run.status == 0 ? Json::parse(run.out) : Json();
  }

  TemporaryFolder folder_;
  int files_ = 0;
  Json golden_ = Json::parse(read_whole_file(REPROFUSE_GOLDEN_ANSWERS));
  std::string question_ = golden_["question"];
  std::string digest_ = golden_["tree_digests"][std::string(kDefaultNumerics)];
};

TEST_F(GenerateInput, APromptFileIsThePromptWithoutTheEndOfItsLastLine) {
  const std::string file = file_with(question_ + "\n");
  EXPECT_EQ(answer("--chat --prompt-file " + file).at("digest"), digest_);
  EXPECT_EQ(answer("--chat --prompt-file -", "cat " + file + " | ").at("digest"), digest_);
  const auto ids = [&](const std::string& prompt) { return answer("--max-tokens 1 " + prompt).at("prompt_tokens"); };
  const Json typed = ids("--prompt '" + question_ + "'");
  EXPECT_EQ(ids("--prompt-file " + file), typed);
  EXPECT_NE(ids("--prompt-file " + file_with(question_ + "\n\n")), typed) << "one end of a line, and no more";

  const Finished missing = reprofuse("generate --prompt-file " + folder_.file("none"));
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(contains(missing.err, "/none: cannot be read: No such file or directory\n")) << missing.err;
  const std::string empty = file_with("\n");
  EXPECT_TRUE(contains(reprofuse("generate --prompt-file " + empty).err, "there is no prompt in " + empty + "\n"));
  EXPECT_TRUE(contains(reprofuse("generate --prompt-file - </dev/null").err, "there is no prompt on stdin\n"));
}

TEST_F(GenerateInput, TokenIdsComeFromFilesAndPipesInAnyUsualForm) {
  const std::string list = golden_["prompt_tokens"].dump();  // [1,2]
  std::string lines = list.substr(1, list.size() - 2) + "\n";
  for (char& c : lines) c = c == ',' ? '\n' : c;
  for (const std::string& text :
       {list, golden_["prompt_tokens"].dump(2) + "\n", lines, list.substr(1, list.size() - 2)})
    EXPECT_EQ(answer("--prompt-tokens @" + file_with(text)).at("digest"), digest_) << text;
  EXPECT_EQ(answer("--prompt-tokens -", "echo '" + list + "' | ").at("digest"), digest_);
  EXPECT_EQ(answer("--prompt-tokens @-", "echo '" + list + "' | ").at("digest"), digest_);
  EXPECT_EQ(answer("--prompt-tokens '" + list + "'").at("digest"), digest_);
}

TEST_F(GenerateInput, AListLongerThanACommandLineIsReadToItsEnd) {
  std::string ids = "7";
  for (int i = 1; i < 100'000; ++i) ids += ",1000";
  const Finished run = reprofuse("generate --prompt-tokens @" + file_with(ids));
  EXPECT_EQ(run.err, "reprofuse: a prompt of 100000 tokens leaves no room in a context of 1024\n");
}

TEST_F(GenerateInput, AListThatIsNoneIsToldWithItsPlace) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {{"1,2,x,4", ": 'x', number 3 of the list, is not a token id: a whole number from 0 to 2147483647\n"},
               {"1,-2", ": '-2', number 2 of the list"},
               {"1,,2", ": '', number 2 of the list"},
               {"2147483648", ": '2147483648', number 1 of the list"},
               {"1,2,", ": the list of token ids ends with a comma\n"},
               {"[1,2", ": the list of token ids has no end: ']' is missing\n"},
               {"[]", ": there are no token ids\n"},
               {"", ": there are no token ids\n"}};
  for (const auto& [text, message] : cases) {
    const std::string file = file_with(text);
    const Finished run = reprofuse("generate --prompt-tokens @" + file);
    EXPECT_EQ(run.status, 1) << text;
    EXPECT_TRUE(contains(run.err, "reprofuse: " + file + message)) << text << ": " << run.err;
    EXPECT_EQ(reprofuse(std::string("generate --prompt-tokens '") + text + "'").status, 2) << text;
  }
  EXPECT_TRUE(contains(reprofuse("generate --prompt-tokens @").err, "--prompt-tokens: '@' names no file\n"));
  EXPECT_TRUE(contains(reprofuse("generate --prompt-tokens 1,x").err, "--prompt-tokens: 'x', number 2 of the list"));
  EXPECT_EQ(reprofuse("generate --prompt-tokens 1,2 --max-tokens 1").status, 0);
}

TEST_F(GenerateInput, LogprobsTellTheLikeliestAndTheMarginAndMoveNoBit) {
  const std::string question = "--chat --prompt '" + question_ + "' ";
  const Json json = answer(question + "--logprobs 3");
  EXPECT_EQ(json.at("digest"), digest_);
  ASSERT_EQ(json.at("logprobs").size(), golden_["tokens"].size());
  std::string text;
  for (std::size_t i = 0; i < json["logprobs"].size(); ++i) {
    const Json& token = json["logprobs"][i];
    const auto logprob = [&](std::size_t place) { return token.at("top").at(place).at("logprob").get<float>(); };
    EXPECT_EQ(token.at("id"), golden_["tokens"][i]);
    EXPECT_EQ(token.at("top").size(), 3U);
    EXPECT_EQ(token.at("top").at(0).at("id"), token.at("id")) << "greedy";
    EXPECT_EQ(token.at("logprob").get<float>(), logprob(0));
    EXPECT_EQ(token.at("margin").get<float>(), logprob(0) - logprob(1));
    EXPECT_GE(logprob(1), logprob(2));
    EXPECT_LE(logprob(0), 0.0F);
    text += token.at("text").get<std::string>();
  }
  EXPECT_EQ(text, golden_["text"]);
  const Json none = answer(question + "--logprobs 0").at("logprobs");
  for (std::size_t i = 0; i < none.size(); ++i) {
    EXPECT_TRUE(none[i].at("top").empty());
    EXPECT_EQ(none[i].at("margin"), json["logprobs"][i].at("margin"));
  }
  EXPECT_FALSE(answer(question).contains("logprobs"));
  const Json sampled = answer(question + "--max-tokens 24 --temperature 50 --seed 1 --logprobs 1");
  bool has_other = false;  // a sampled token need not be the likeliest
  for (const Json& token : sampled.at("logprobs"))
    has_other = has_other || token.at("top").at(0).at("id") != token.at("id");
  EXPECT_TRUE(has_other);
}

TEST_F(GenerateInput, LogprobsAsTextAreALineForEachToken) {
  const std::string question = "generate --digest --max-tokens 2 --chat --prompt '" + question_ + "' ";
  const Finished run = reprofuse(question + "--logprobs 2");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "   token  text                logprob    margin  likeliest\n      80  \"P\" "))
      << run.out;
  EXPECT_TRUE(contains(run.out, "  80 \"P\" -")) << run.out;
  EXPECT_LT(run.out.find("margin"), run.out.find("\ndigest tree-1:")) << run.out;
  EXPECT_FALSE(contains(reprofuse(question).out, "margin"));
  EXPECT_EQ(reprofuse(question + "--logprobs 21").status, 2);
}

TEST_F(GenerateInput, SpecialTokensInWhatAUserWritesAreTokensOrPlainText) {
  static constexpr int kEndOfTurn = 1023;
  const auto ids = [&](const std::string& prompt, const std::string& mode) {
    return answer("--max-tokens 1 " + prompt + " --special-tokens-in-content " + mode).at("prompt_tokens");
  };
  const auto ends = [](const Json& tokens) { return std::count(tokens.begin(), tokens.end(), Json(kEndOfTurn)); };
  for (const char* chat : {"--prompt ", "--chat --prompt "}) {
    const std::string forged = std::string(chat) + "'a<|eot_id|>b'", harmless = std::string(chat) + "hello";
    EXPECT_EQ(ends(ids(forged, "as-tokens")), ends(ids(forged, "plain")) + 1) << chat;
    EXPECT_EQ(ends(ids(forged, "plain")), ends(ids(harmless, "plain"))) << chat;
    EXPECT_EQ(ids(harmless, "as-tokens"), ids(harmless, "plain")) << chat;
    EXPECT_EQ(answer("--max-tokens 1 " + forged).at("prompt_tokens"), ids(forged, "as-tokens")) << "the default";
  }
  const Finished wrong = reprofuse("generate --prompt a --special-tokens-in-content some");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(contains(wrong.err, "--special-tokens-in-content: 'some' is not one of as-tokens, plain")) << wrong.err;
}

}  // namespace
}  // namespace reprofuse
