// `reprofuse generate` and `reprofuse info` as a user meets them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_cli.hpp"
#include "reprofuse/context.hpp"
#include "support/files.hpp"

namespace reprofuse {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

std::string joined(const Json& numbers) {
  std::string list;
  for (const Json& number : numbers) list += (list.empty() ? "" : ",") + number.dump();
  return list;
}

// The bundled model in a folder of its own, without the file `missing`.
class ModelWithout {
 public:
  explicit ModelWithout(const std::string& missing) {
    for (const auto& entry : fs::directory_iterator(REPROFUSE_BUNDLED_MODEL))
      if (entry.path().filename() != missing)
        fs::create_symlink(entry.path(), folder_.file(entry.path().filename().string()));
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST(Stress, KnowsTheModelThatComesAlongInAnyFolder) {
  const ModelWithout elsewhere("nothing");
  const Finished run = reprofuse("stress --requests 16 --schedules 0 --threads 1 --model '" + elsewhere.path() + "'");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "the committed one")) << run.out;
}

// Prompts as text need a tokenizer; where the build has none, tests of ids remain.
class GenerateText : public testing::Test {
 protected:
  void SetUp() override {
    if (REPROFUSE_HAVE_TEXT == 0) GTEST_SKIP() << "this build has no tokenizer";
  }
  Json golden_ = Json::parse(read_whole_file(REPROFUSE_GOLDEN_ANSWERS));
  std::string digest_ = golden_["tree_digests"][std::string(kDefaultNumerics)];
  std::string question_ = "--chat --prompt " + quoted(golden_["question"]);
};

TEST_F(GenerateText, AnswersFromAnyWorkingDirectoryWithTheGoldenDigest) {
  const Finished run = reprofuse("generate --digest " + question_, "cd / && ");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, golden_["text"].get<std::string>() + "\ndigest " + digest_ + "\n");
  const std::string note = ", the default there; --numerics chooses another\n";
  EXPECT_EQ(run.err.substr(0, run.err.find('\n') + 1), "fma-1 on " + Context::cpu().description() + note);
  EXPECT_TRUE(contains(run.err, " per second\n")) << run.err;
  EXPECT_FALSE(contains(run.err, "\x1b")) << "no progress bar into a file";
}

TEST_F(GenerateText, WithoutDigestStdoutIsTheAnswerAlone) {
  const Finished run = reprofuse("generate " + question_);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, golden_["text"].get<std::string>() + "\n");
}

TEST_F(GenerateText, JsonIsOneObjectWithTheDocumentedKeys) {
  const Finished run = reprofuse("generate --json --digest " + question_);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const Json json = Json::parse(run.out);
  for (const char* key : {"text", "tokens", "prompt_tokens"}) EXPECT_EQ(json.at(key), golden_.at(key)) << key;
  EXPECT_EQ(json.at("digest"), digest_);
  EXPECT_EQ(json.at("numerics"), kDefaultNumerics);
  EXPECT_EQ(json.at("finish_reason"), "stop");
  EXPECT_EQ(json.at("device"), Context::cpu().description());
  EXPECT_GT(json.at("prefill_seconds"), 0.0);
  EXPECT_GT(json.at("decode_seconds"), 0.0);
  EXPECT_FALSE(Json::parse(reprofuse("generate --json --max-tokens 1 " + question_).out).contains("digest"))
      << "none unless asked for";
}

TEST_F(GenerateText, JsonHasALineForEachKeyAndListsOnTheirOwn) {
  const Finished run = reprofuse("generate --json " + question_);
  const Json json = Json::parse(run.out);
  for (const char* key : {"tokens", "prompt_tokens"}) {
    std::string ids;
    for (const int id : json.at(key)) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
    EXPECT_TRUE(contains(run.out, "\n  \"" + std::string(key) + "\": [" + ids + "],\n")) << run.out;
  }
  EXPECT_TRUE(contains(run.out, ",\n  \"sampling\": {\n    \"temperature\": 0.0,\n    \"top_k\": 0,\n")) << run.out;
  const auto lines = static_cast<std::size_t>(std::count(run.out.begin(), run.out.end(), '\n'));
  EXPECT_EQ(lines, 2 + json.size() + json.at("sampling").size() + 1) << run.out;  // and the brackets
}

// Above the tie between 1 and the next binary32 number by less than binary64 can tell: that rounds to the tie, and the
// tie to 1. One rounding, or one by long double on the way, would give the next number.
TEST_F(GenerateText, DecimalSettingsBecomeBinary32ByWayOfBinary64) {
  const auto temperature = [&](const std::string& text) {
    const Finished run = reprofuse("generate --json --max-tokens 1 --temperature " + text + " --prompt-tokens 1");
    return Json::parse(run.out).at("sampling").at("temperature").get<double>();
  };
  EXPECT_EQ(temperature("1.000000059604644785390625"), 1.0);
  EXPECT_EQ(temperature("1.0000000596046450"), 1.0 + 0x1p-23) << "binary64 can tell this one";
  EXPECT_EQ(temperature("0.8"), static_cast<double>(0.8F));
}

TEST_F(GenerateText, HowItIsComputedMovesNoBit) {
  for (const Isa isa : supported_isas()) {
    const std::string forced = " --isa " + std::string(isa_name(isa)) + " --threads 1 --prefill-chunk 7";
    const Finished run = reprofuse("generate --json --digest " + question_ + forced);
    ASSERT_EQ(run.status, 0) << run.err;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json.at("digest"), digest_) << isa_name(isa);
    EXPECT_EQ(json.at("device"), "cpu " + std::string(isa_name(isa)) + ", 1 thread");
  }
}

TEST_F(GenerateText, APromptComesFromStdinToo) {
  const std::string piped = "printf %s " + quoted(golden_["question"]) + " | ";
  const Finished run = reprofuse("generate --chat --prompt -", piped);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, golden_["text"].get<std::string>() + "\n");
}

TEST_F(GenerateText, SeedsAndTemperatureReachTheSampler) {
  const auto sampled = [&](const std::string& options) {
    return reprofuse("generate --max-tokens 24 --digest " + question_ + " --temperature 4 " + options).out;
  };
  EXPECT_EQ(sampled("--seed 1"), sampled("--seed 1 --threads 3"));
  EXPECT_NE(sampled("--seed 1"), sampled("--seed 2"));
  EXPECT_EQ(sampled("--seed 1 --top-k 1"), reprofuse("generate --max-tokens 24 --digest " + question_).out)
      << "the best of one token is the greedy one";
}

TEST_F(GenerateText, IgnoreStopGoesOnToMaxTokens) {
  const Finished run = reprofuse("generate --json --ignore-stop --max-tokens 80 " + question_);
  ASSERT_EQ(run.status, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json.at("tokens").size(), 80U);
  EXPECT_EQ(json.at("finish_reason"), "length");
}

TEST_F(GenerateText, AStopStringEndsTheAnswerAndIsNoPartOfIt) {
  const std::string text = golden_["text"];
  const std::string stop = text.substr(text.size() / 2, 3);
  const Finished run = reprofuse("generate --json --stop 'never in the text' --stop " + quoted(stop) + " " + question_);
  ASSERT_EQ(run.status, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json.at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(json.at("finish_reason"), "stop");
  EXPECT_EQ(reprofuse("generate --stop " + quoted(stop) + " " + question_).out, text.substr(0, text.find(stop)) + "\n");
}

TEST_F(GenerateText, EveryContractWithAGoldenDigestGivesIt) {
  EXPECT_EQ(golden_["tree_digests"].size(), 4U);
  for (const auto& [numerics, digest] : golden_["tree_digests"].items()) {
    const Finished run = reprofuse("generate --json --digest " + question_ + " --numerics " + numerics);
    ASSERT_EQ(run.status, 0) << run.err;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json.at("text"), golden_["text"]) << numerics;
    EXPECT_EQ(json.at("numerics"), numerics);
    EXPECT_EQ(json.at("digest"), digest) << numerics;
  }
}

// The vendor's library decides the bits of these; the forward pass and the answer to an easy question are the same.
TEST_F(GenerateText, BaselinesRunTheSameModel) {
  for (const char* numerics : {"layercast", "bf16"}) {
    const Finished run = reprofuse("generate --json --digest " + question_ + " --numerics " + numerics);
    if (contains(run.err, "libopenblas")) GTEST_SKIP() << run.err;
    ASSERT_EQ(run.status, 0) << run.err;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json.at("text"), golden_["text"]) << numerics;
    EXPECT_EQ(json.at("numerics"), numerics);
    EXPECT_NE(json.at("digest"), digest_) << numerics;
  }
}

TEST_F(GenerateText, AFolderWithoutATokenizerTakesIdsOnly) {
  const ModelWithout model("tokenizer.json");
  const std::string& folder = model.path();
  const Finished text = reprofuse("generate --prompt hello --model " + quoted(folder));
  EXPECT_EQ(text.status, 1);
  EXPECT_EQ(text.err,
            "reprofuse: there is no tokenizer, only token ids: " + folder + "/tokenizer.json: there is no such file\n");
  const Finished ids = reprofuse("generate --max-tokens 3 --model " + quoted(folder) + " --prompt-tokens " +
                                 joined(golden_["prompt_tokens"]));
  EXPECT_EQ(ids.status, 0) << ids.err;
  EXPECT_EQ(ids.out, "80 911 311\n");
}

TEST_F(GenerateText, AFolderWithoutAChatTemplateIsAnErrorOfChatAlone) {
  const ModelWithout model("chat_template.jinja");
  const std::string& folder = model.path();
  const Finished chat = reprofuse("generate --max-tokens 1 --model " + quoted(folder) + " " + question_);
  EXPECT_EQ(chat.status, 1);
  EXPECT_TRUE(contains(chat.err, folder + " has no chat template")) << chat.err;
  const Finished plain = reprofuse("generate --max-tokens 1 --prompt hello --model " + quoted(folder));
  EXPECT_EQ(plain.status, 0) << plain.err;
}

TEST(Generate, TokenIdsAreAPromptToo) {
  const Json golden = Json::parse(read_whole_file(REPROFUSE_GOLDEN_ANSWERS));
  const std::string prompt = " --prompt-tokens " + joined(golden["prompt_tokens"]);
  for (const auto& [option, digests] : {std::pair("--digest", "tree_digests"), {"--digest chain-1", "digests"}}) {
    const Finished run = reprofuse(std::string("generate --json ") + option + prompt);
    ASSERT_EQ(run.status, 0) << run.err;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json.at("tokens"), golden.at("tokens"));
    EXPECT_EQ(json.at("digest"), golden.at(digests).at("fma-1"));
  }
  const Finished unknown = reprofuse("generate --digest tree-2" + prompt);
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(contains(unknown.err, "--digest: 'tree-2' is not")) << unknown.err;
}

TEST(Generate, ANegativeSeedIsTheUnsignedOneWithTheSameBits) {
  const auto tokens = [](const std::string& seed) {
    const Finished run =
        reprofuse("generate --json --max-tokens 12 --temperature 2 --prompt-tokens 1,2 --seed " + seed);
    EXPECT_EQ(run.status, 0) << run.err;
    return Json::parse(run.out).at("tokens");
  };
  EXPECT_EQ(tokens("-5"), tokens("18446744073709551611"));
  EXPECT_NE(tokens("-5"), tokens("5"));
}

TEST(Generate, AFullContextEndsTheAnswer) {
  const Finished run = reprofuse("generate --json --ignore-stop --context 40 --max-tokens 1000 --prompt-tokens 1,2,3");
  ASSERT_EQ(run.status, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json.at("tokens").size(), 37U);
  EXPECT_EQ(json.at("finish_reason"), "length");
}

TEST(Generate, AnAnswerThatNobodyCanReadIsCancelled) {
  const std::string to_full_disk = "sh -c 'exec \"$0\" \"$@\" >/dev/full' ";
  const Finished run = reprofuse("generate --ignore-stop --max-tokens 500 --prompt-tokens 1,2,3", to_full_disk);
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(contains(run.err, "answer: 1 token\n")) << run.err;
  EXPECT_TRUE(contains(run.err, "stdout cannot be written")) << run.err;
}

TEST(Generate, ErrorsAreOneLineThatSaysWhatIsWrong) {
  const struct {
    const char* arguments;
    const char* message;
  } cases[] = {
      {"--model /nowhere --prompt-tokens 1", "/nowhere: there is no such folder\n"},
      {"--model some-org/some.model-7B --prompt-tokens 1",
       "some-org/some.model-7B: there is no such folder. A model is a folder on this machine; `hf download "
       "some-org/some.model-7B --local-dir some-org/some.model-7B` makes one"},
      {"--prompt-tokens 1,5000", "token 5000 at position 1 of the prompt is outside the vocabulary of 1024"},
      {"--context 4096 --prompt-tokens 1", "a context of 4096 tokens is outside 1 to 1024"},
      {"--context 2 --prompt-tokens 1,2", "a prompt of 2 tokens leaves no room in a context of 2"},
  };
  for (const auto& [arguments, message] : cases) {
    const Finished run = reprofuse(std::string("generate ") + arguments);
    EXPECT_EQ(run.status, 1) << arguments;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_EQ(run.err.find(std::string("reprofuse: ") + message), 0U) << arguments << ": " << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
}

TEST(Generate, ACommandLineThatMakesNoSenseExits2WithAHint) {
  const struct {
    const char* arguments;
    const char* message;
  } cases[] = {
      {"", "give the prompt with one of --prompt, --prompt-file and --prompt-tokens, or many with --jsonl"},
      {"--prompt x --prompt-tokens 1", "give the prompt with one of --prompt, --prompt-file and --prompt-tokens"},
      {"--chat --prompt-tokens 1", "--chat goes with --prompt"},
      {"--system x --prompt y", "--system goes with --chat"},
      {"--isa scalar --device cuda --prompt-tokens 1", "--isa and --threads go with --device cpu, not cuda"},
      {"--numerics fma-0 --prompt-tokens 1", "--numerics: 'fma-0' is not one of fma-1, "},
      {"--stop '' --prompt-tokens 1", "--stop: '' is in every text"},
      {"--max-tokens 0 --prompt-tokens 1", "--max-tokens: '0' is not a whole number from 1 to "},
      {"--prefill-chunk 0 --prompt-tokens 1", "--prefill-chunk: '0' is not a whole number from 1 to "},
      {"--prompt-tokens 1,a", "--prompt-tokens"},
      {"--isa mmx", "--isa: 'mmx' is not one of scalar, avx2, avx512, neon\n"},
      {"--frob", "generate has no option '--frob'\n"},
      {"--promt x", "generate has no option '--promt'; did you mean '--prompt'?"},
      {"--temperature -1 --prompt-tokens 1", "--temperature: '-1' is not a number of at least 0 that FP32 can hold"},
      {"--temperature hot --prompt-tokens 1", "--temperature: 'hot' is not a number"},
      {"--top-p 2 --prompt-tokens 1", "--top-p: '2' is not a number from 0 to 1"},
      {"--repetition-penalty 0 --prompt-tokens 1", "--repetition-penalty: '0' is not a number from 0.01 to 100"},
      {"--date 31.12.2024 --chat --prompt x", "--date: "},
      {"--seed 1.5 --prompt-tokens 1", "--seed: '1.5' is not a whole number of 64 bits\n"},
      {"--seed 18446744073709551616 --prompt-tokens 1", "--seed: '18446744073709551616' is not a whole number"},
      {"--seed -9223372036854775809 --prompt-tokens 1", "--seed: '-9223372036854775809' is not a whole number"},
  };
  for (const auto& [arguments, message] : cases) {
    const Finished run = reprofuse(std::string("generate ") + arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_TRUE(contains(run.err, message)) << arguments << ": " << run.err;
    EXPECT_TRUE(contains(run.err, "Try 'reprofuse generate --help'.")) << run.err;
  }
}

TEST(Info, ShowsTheCardOfTheBundledModelWithItsDigest) {
  const Finished run = reprofuse("info", "cd / && ");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (const char* part : {"Model ", "/models/arithmetic-7m\n", "LlamaForCausalLM", "7.3 million, 14.7 MB",
                           "bf16 (83 tensors)", "8 heads of 32 over 4 key-value heads", "1024, tied head",
                           "447e901bd6b4c4e47cbc76bdca09afff547bb424313e0351b8db1438f9de7930"})
    EXPECT_TRUE(contains(run.out, part)) << part << " is not in\n" << run.out;
}

TEST(Info, AnotherModelHasAnotherDigestAndAFolderThatIsNoneAnError) {
  const ModelWithout model("model.safetensors");
  const std::string& folder = model.path();
  std::string weights = read_whole_file(std::string(REPROFUSE_BUNDLED_MODEL) + "/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write_file(folder + "/model.safetensors", weights);
  const Finished changed = reprofuse("info --model " + quoted(folder));
  ASSERT_EQ(changed.status, 0) << changed.err;
  EXPECT_FALSE(contains(changed.out, "447e901bd6b4c4e47cbc76bdca09afff547bb424313e0351b8db1438f9de7930"));

  const Finished missing = reprofuse("info --model /nowhere");
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err, "reprofuse: /nowhere: there is no such folder\n");
}

}  // namespace
}  // namespace reprofuse
