// The tokenizer gives the ids, and the text, that @huggingface/tokenizers gives.
#include <gtest/gtest.h>

#include <algorithm>

#include "text/tokenizer/detokenizer.hpp"
#include "text/tokenizer/unicode.hpp"
#include "tokenizer_files.hpp"

namespace reprofuse::text {
namespace {

class TokenizerCorpus : public testing::TestWithParam<std::string> {
 protected:
  // The place of this style's ids in a line of the corpus: after the text, in the order of the file.
  std::size_t column() const {
    const auto names = expected_.at("styles").get<std::vector<std::string>>();
    return 1 + (std::find(names.begin(), names.end(), GetParam()) - names.begin());
  }

  nlohmann::json expected_ = read_expected();
  Tokenizer tokenizer_ = load_style(GetParam());
};

TEST_P(TokenizerCorpus, GivesTheIdsOfTransformers) {
  std::size_t compared = 0;
  std::size_t excluded = 0;
  for (const auto& line : expected_.at("strings")) {
    const auto text = line.at(0).get<std::string>();
    if (line.at(column()).is_null()) {
      ++excluded;
      continue;
    }
    EXPECT_EQ(tokenizer_.encode(text, false), line.at(column()).get<Ids>()) << "text: " << line.at(0).dump();
    ++compared;
  }
  EXPECT_GE(compared, 2000U);
  EXPECT_LE(excluded, GetParam() == "gpt2" ? 150U : 5U);
}

TEST_P(TokenizerCorpus, PutsTheSameSpecialTokensAroundAText) {
  for (const auto& line : expected_.at("with_special_tokens")) {
    EXPECT_EQ(tokenizer_.encode(line.at(0).get<std::string>(), true), line.at(column()).get<Ids>()) << line.dump();
  }
}

TEST_P(TokenizerCorpus, DecodesRandomIdsAsTransformersDoes) {
  const auto& cases = expected_.at("decoded").at(GetParam());
  ASSERT_GE(cases.size(), 50U);
  for (const auto& decoded : cases) {
    const auto ids = decoded.at("ids").get<Ids>();
    EXPECT_EQ(tokenizer_.decode(ids, false), decoded.at("text").get<std::string>()) << decoded.dump();
    EXPECT_EQ(tokenizer_.decode(ids), decoded.at("without_special").get<std::string>()) << decoded.dump();
  }
}

// Not of the style that adds and strips spaces.
TEST(TokenizerCorpusRoundTrip, DecodingGivesTheNormalizedTextBack) {
  const nlohmann::json expected = read_expected();
  for (const std::string style : {"llama3", "qwen", "deepseek"}) {
    const Tokenizer tokenizer = load_style(style);
    for (const auto& line : expected.at("strings")) {
      const auto text = line.at(0).get<std::string>();
      const std::string normalized = style == "qwen" ? normalize_nfc(text) : text;
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false), false), normalized) << style << line.at(0).dump();
    }
  }
}

// How many strings of the corpus get other ids from this document.
std::size_t count_differences(const nlohmann::json& expected, const std::string& style,
                              const nlohmann::json& document) {
  const Tokenizer tokenizer = Tokenizer::from_json(document.dump(), "changed.json");
  const auto names = expected.at("styles").get<std::vector<std::string>>();
  const std::size_t column = 1 + (std::find(names.begin(), names.end(), style) - names.begin());
  std::size_t differences = 0;
  for (const auto& line : expected.at("strings")) {
    if (line.at(column).is_null()) continue;
    differences += tokenizer.encode(line.at(0).get<std::string>(), false) == line.at(column).get<Ids>() ? 0 : 1;
  }
  return differences;
}

struct Sabotage {
  const char* style;
  const char* pointer;  // what to change, as a JSON pointer
  nlohmann::json value;
};

// The negative control: each of these small changes of a tokenizer must show in the corpus.
TEST(TokenizerCorpusControl, SeesEachSettingOfATokenizer) {
  const nlohmann::json expected = read_expected();
  const char* pattern = "/pre_tokenizer/pretokenizers/0/pattern/Regex";
  const auto changed_pattern = [&](const char* style, const std::string& from, const std::string& to) {
    auto regex = read_json(tokenizer_path(style)).at(nlohmann::json::json_pointer(pattern)).get<std::string>();
    const std::size_t at = regex.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? regex : regex.replace(at, from.size(), to);
  };
  const nlohmann::json merges = read_json(tokenizer_path("llama3"))["model"]["merges"];
  const Sabotage sabotages[] = {
      {"llama3", "/model/ignore_merges", false},
      {"llama3", "/model/merges/40", merges[60]},
      {"llama3", pattern, changed_pattern("llama3", "{1,3}", "{1,2}")},
      {"llama3", pattern, changed_pattern("llama3", "(?i:", "(?:")},
      {"llama3", pattern, changed_pattern("llama3", R"(\s+(?!\S)|)", "")},
      {"llama3", pattern, changed_pattern("llama3", R"(\s*[\r\n]+)", R"(\s*[\n]+)")},
      {"llama3", pattern, changed_pattern("llama3", R"([^\s\p{L}\p{N}])", R"([^\s\x{180e}\p{L}\p{N}])")},
      {"qwen", "/normalizer", nullptr},
      {"qwen", "/added_tokens/7/normalized", false},
      {"deepseek", "/added_tokens/5/content", "<thought>"},
      {"gpt2", "/pre_tokenizer/add_prefix_space", false},
      {"gpt2", "/added_tokens/1/lstrip", false},
      {"gpt2", "/added_tokens/2/rstrip", false},
  };
  for (const Sabotage& sabotage : sabotages) {
    nlohmann::json document = read_json(tokenizer_path(sabotage.style));
    EXPECT_EQ(count_differences(expected, sabotage.style, document), 0U);
    document[nlohmann::json::json_pointer(sabotage.pointer)] = sabotage.value;
    EXPECT_GT(count_differences(expected, sabotage.style, document), 0U)
        << sabotage.style << " with " << sabotage.pointer << " = " << sabotage.value;
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, TokenizerCorpus, testing::ValuesIn(styles()),
                         [](const auto& style) { return style.param; });

}  // namespace
}  // namespace reprofuse::text
