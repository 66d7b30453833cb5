// `reprofuse generate --jsonl`: many prompts, one load of the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run_cli.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

class GenerateJsonl : public testing::Test {
 protected:
  std::string file_with(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    write_file(path_, text);
    return path_;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("prompts.jsonl");
  Json golden_ = Json::parse(read_whole_file(REPROFUSE_GOLDEN_ANSWERS));
};

TEST_F(GenerateJsonl, PromptsMessagesAndIdsHaveTheGoldenAnswerInTheirOrder) {
  if (REPROFUSE_HAVE_TEXT == 0) GTEST_SKIP() << "this build has no tokenizer";
  const Json message = {{"role", "user"}, {"content", golden_["question"]}};
  file_with({Json{{"id", "text"}, {"prompt", golden_["question"]}}.dump(), "",
             Json{{"id", 7}, {"messages", Json::array({message})}}.dump(),
             Json{{"prompt_tokens", golden_["prompt_tokens"]}, {"max_tokens", 100}}.dump()});
  for (const char* batch : {"1", "3"}) {
    const Finished run = reprofuse(std::string("generate --chat --digest --jsonl ") + path_ + " --batch " + batch);
    ASSERT_EQ(run.status, 0) << run.err;
    const std::vector<Json> answers = lines_of(run.out);
    ASSERT_EQ(answers.size(), 3U) << run.out;
    for (const Json& answer : answers) {
      for (const char* key : {"text", "tokens", "prompt_tokens"}) EXPECT_EQ(answer.at(key), golden_.at(key)) << key;
      EXPECT_EQ(answer.at("digest"), golden_["tree_digests"][std::string(kDefaultNumerics)]);
      EXPECT_EQ(answer.at("finish_reason"), "stop");
    }
    EXPECT_EQ(answers[0].at("id"), "text");
    EXPECT_EQ(answers[1].at("id"), 7);
    EXPECT_FALSE(answers[2].contains("id"));
    EXPECT_EQ(answers[1].at("line"), 3) << "empty lines are counted";
    EXPECT_TRUE(contains(run.err, "3 of 3 lines answered")) << run.err;
  }
}

// Lengths and samplings of all kinds, more than fit into a batch: each line has the object of a run of its own.
TEST_F(GenerateJsonl, ALineHasWhatARunOfItsOwnPrints) {
  const struct {
    const char* line;
    const char* options;
  } cases[] = {
      {R"({"prompt_tokens": [1, 2, 3], "max_tokens": 40, "ignore_stop": true})",
       "--prompt-tokens 1,2,3 --max-tokens 40 --ignore-stop"},
      {R"({"prompt_tokens": [5]})", "--prompt-tokens 5"},
      {R"({"prompt_tokens": [9, 8, 7], "temperature": 1.5, "seed": -3, "top_k": 50, "max_tokens": 9})",
       "--prompt-tokens 9,8,7 --temperature 1.5 --seed -3 --top-k 50 --max-tokens 9"},
      {R"({"prompt_tokens": [9, 8, 7], "temperature": 1.5, "seed": 4, "top_p": 0.9, "min_p": 0.01, "max_tokens": 9})",
       "--prompt-tokens 9,8,7 --temperature 1.5 --seed 4 --top-p 0.9 --min-p 0.01 --max-tokens 9"},
      {R"({"prompt_tokens": [3, 3], "repetition_penalty": 1.3, "logprobs": 2})",
       "--prompt-tokens 3,3 --repetition-penalty 1.3 --logprobs 2"},
  };
  std::vector<std::string> lines;
  for (const auto& entry : cases) lines.emplace_back(entry.line);
  file_with(lines);
  const std::string common = " --digest --max-tokens 6 ";
  const auto all = [&](const std::string& options) {
    const Finished run = reprofuse("generate" + common + "--jsonl " + path_ + " " + options);
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out;
  };
  const std::string together = all("--batch 2");
  EXPECT_EQ(together, all("--batch 1 --prefill-chunk 1")) << "in the same order, with the same bits";
  EXPECT_NE(together, all("--batch 2 --numerics exact-1"));
  const std::vector<Json> answers = lines_of(together);
  ASSERT_EQ(answers.size(), std::size(cases));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string options = cases[i].options;
    const bool has_length = contains(options, "--max-tokens");
    const Finished alone =
        reprofuse("generate --json --digest " + std::string(has_length ? "" : "--max-tokens 6 ") + options);
    ASSERT_EQ(alone.status, 0) << alone.err;
    Json expected = Json::parse(alone.out), got = answers[i];
    for (const char* key : {"prefill_seconds", "decode_seconds"}) expected.erase(key);
    EXPECT_EQ(got.at("line"), i + 1);
    got.erase("line");
    EXPECT_EQ(got, expected) << options;
  }
  EXPECT_NE(answers[2].at("digest"), answers[3].at("digest")) << "another seed";
}

TEST_F(GenerateJsonl, ALineThatCannotBeAnsweredSaysWhyAndWhereAndTheOthersAre) {
  const struct {
    const char* line;
    const char* message;
  } cases[] = {
      {R"({"id": "a", "prompt_tokens": [1]})", ""},
      {R"({"prompt_tokens": [1])", "is not JSON: it goes wrong at byte "},
      {R"([1, 2])", "is [1,2], not a JSON object"},
      {R"({"id": "b", "promt_tokens": [1]})", "key 'promt_tokens' with value [1] is not understood"},
      {R"({"max_tokens": 3})", "needs one of 'prompt', 'messages' and 'prompt_tokens'"},
      {R"({"prompt": "a", "prompt_tokens": [1]})", "needs one of 'prompt', 'messages' and 'prompt_tokens'"},
      {R"({"prompt_tokens": []})", "the prompt has no tokens"},
      {R"({"prompt_tokens": 1})", "prompt_tokens is 1, not a list of token ids"},
      {R"({"prompt_tokens": [1, 5000]})", "token 5000 at position 1 of the prompt is outside the vocabulary of 1024"},
      {R"({"prompt_tokens": [1], "max_tokens": 0})", "max_tokens is 0, not an integer from 1 to "},
      {R"({"prompt_tokens": [1], "temperature": "hot"})", "temperature is 'hot', not a number"},
      {R"({"prompt_tokens": [1], "seed": 1.5})", "seed is 1.5, not a whole number of 64 bits"},
      {R"({"prompt_tokens": [1], "stop": ""})", "stop is '', not a string that is not empty"},
      {R"({"prompt_tokens": [1], "id": []})", "id is [], not a string or a number"},
      {R"({"prompt_tokens": [1], "seed": 1, "seed": 2})", "seed"},
      {R"({"messages": []})", "messages is [], not a list of at least one message"},
      {R"({"messages": [{"role": "user"}]})", "key 'messages[0].content' is missing"},
      {R"({"messages": [{"role": "user", "content": "a", "tool_calls": []}]})", "'messages[0].tool_calls'"},
      {R"({"id": "z", "prompt_tokens": [2]})", ""},
  };
  std::vector<std::string> lines;
  for (const auto& entry : cases) lines.emplace_back(entry.line);
  const Finished run = reprofuse("generate --max-tokens 2 --jsonl " + file_with(lines));
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(contains(run.err, "reprofuse: 17 of 19 lines could not be answered\n")) << run.err;
  const std::vector<Json> answers = lines_of(run.out);
  ASSERT_EQ(answers.size(), std::size(cases)) << run.out;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string message = cases[i].message;
    EXPECT_EQ(answers[i].at("line"), i + 1);
    EXPECT_EQ(answers[i].contains("error"), !message.empty()) << answers[i];
    EXPECT_EQ(answers[i].contains("tokens"), message.empty()) << answers[i];
    if (message.empty()) continue;
    const std::string place = path_ + ", line " + std::to_string(i + 1) + ": ";
    EXPECT_EQ(answers[i].at("error").get<std::string>().find(place), 0U) << answers[i];
    EXPECT_TRUE(contains(answers[i].at("error"), message)) << answers[i];
  }
  EXPECT_EQ(answers[3].at("id"), "b") << "also of a line with an error";
  EXPECT_EQ(answers.back().at("id"), "z");
}

// Whoever writes a line and waits for its answer gets it, though the pipe stays open.
TEST_F(GenerateJsonl, AnAnswerIsWrittenBeforeTheNextLineComes) {
  const std::string out = folder_.file("out");
  const std::string asker = "{ echo '{\"prompt_tokens\": [1]}'; for i in $(seq 600); do [ -s " + out +
                            " ] && break; sleep 0.1; done; [ -s " + out +
                            " ] && echo '{\"prompt_tokens\": [2], \"id\": \"second\"}'; } | ";
  const Finished run = reprofuse("generate --max-tokens 2 --jsonl - | tee " + out, asker);
  const std::vector<Json> answers = lines_of(run.out);
  ASSERT_EQ(answers.size(), 2U) << run.out << run.err;
  EXPECT_EQ(answers[1].at("id"), "second");
}

TEST_F(GenerateJsonl, WhatDoesNotGoTogetherIsRefusedWithTheReason) {
  const std::string file = file_with({R"({"prompt_tokens": [1]})"});
  const struct {
    std::string options;
    const char* message;
  } cases[] = {
      {"--receipt r.json", "--receipt goes with one prompt, not with --jsonl: a file holds one receipt"},
      {"--json", "--json goes with one prompt: what --jsonl prints is JSON anyway"},
      {"--prompt-tokens 1", "give the prompt with one of --prompt, --prompt-file and --prompt-tokens, or many"},
      {"--batch 0", "--batch: '0' is not a whole number from 1 to 4096"}};
  for (const auto& [options, message] : cases) {
    const Finished run = reprofuse("generate --jsonl " + file + " " + options);
    EXPECT_EQ(run.status, 2) << options;
    EXPECT_TRUE(contains(run.err, message)) << run.err;
  }
  EXPECT_EQ(reprofuse("generate --batch 2 --prompt-tokens 1").status, 2);
  const Finished missing = reprofuse("generate --jsonl " + folder_.file("none"));
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(contains(missing.err, "/none: cannot be read: No such file or directory\n")) << missing.err;
  const Finished folder = reprofuse("generate --jsonl " + folder_.path());
  EXPECT_TRUE(contains(folder.err, ": cannot be read: Is a directory\n")) << folder.err;
  const Finished full = reprofuse("generate --jsonl " + file, "sh -c 'exec \"$0\" \"$@\" >/dev/full' ");
  EXPECT_EQ(full.status, 1);
  EXPECT_TRUE(contains(full.err, "stdout cannot be written")) << full.err;
}

}  // namespace
}  // namespace reprofuse
