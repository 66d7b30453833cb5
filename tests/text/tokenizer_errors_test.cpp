// What a tokenizer.json says that is not understood is an error that names file, key and value.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "reprofuse/error.hpp"
#include "tokenizer_small.hpp"

namespace reprofuse::text {
namespace {

using nlohmann::json;

std::string error_of(std::string_view document) {
  try {
    Tokenizer::from_json(document, "dir/tokenizer.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Change {
  const char* pointer;  // where in the document, as a JSON pointer
  json value;
  const char* message;
};

const Change kChanges[] = {
    {"/version", "2.0", "dir/tokenizer.json: version '2.0' is not supported; only '1.0' is"},
    {"/extra", 1, "dir/tokenizer.json: extra 1 is a key not known here"},
    {"/model", nullptr, "dir/tokenizer.json: model is missing"},
    {"/model/type", "WordPiece", "dir/tokenizer.json: model.type 'WordPiece' is not supported; only 'BPE' is"},
    {"/model/dropout", 0.1, "dir/tokenizer.json: model.dropout 0.1 is not supported"},
    {"/model/byte_fallback", true, "dir/tokenizer.json: model.byte_fallback true is not supported"},
    {"/model/ignore_merges", 1, "dir/tokenizer.json: model.ignore_merges 1 must be true or false"},
    {"/model/end_of_word_suffix", "</w>", "dir/tokenizer.json: model.end_of_word_suffix '</w>' is not supported"},
    {"/model/vocab", json::array(), "dir/tokenizer.json: model.vocab (an array of 0) must be an object"},
    {"/model/vocab/zz", -1, "dir/tokenizer.json: model.vocab zz -1 is no token id"},
    {"/model/vocab/zz", 1.5, "dir/tokenizer.json: model.vocab zz 1.5 is no token id"},
    {"/model/vocab/zz", 4294967296, "dir/tokenizer.json: model.vocab zz 4294967296 is no token id"},
    {"/model/vocab/zz", 3, "the token id 3 of '"},
    {"/model/merges", "a b", "dir/tokenizer.json: model.merges 'a b' must be an array"},
    {"/model/merges/0", "ab", "dir/tokenizer.json: model.merges[0] 'ab' must be two tokens and one space"},
    {"/model/merges/0", "a b c", "dir/tokenizer.json: model.merges[0] 'a b c' must be two tokens"},
    {"/model/merges/0", {"a"}, "dir/tokenizer.json: model.merges[0] (an array of 1) must be a string or a pair"},
    {"/model/merges/0", "a \u20ac", "makes use of '\u20ac' at [0], which is not in model.vocab"},
    {"/model/merges/0", "a c", "makes use of 'ac' at [0], which is not in model.vocab"},
    {"/normalizer", {{"type", "NFKC"}}, "dir/tokenizer.json: normalizer.type 'NFKC' is not supported; only 'NFC' is"},
    {"/normalizer",
     {{"type", "Sequence"}, {"normalizers", {{{"type", "Strip"}}}}},
     "dir/tokenizer.json: normalizer.normalizers[0].type 'Strip' is not supported"},
    {"/pre_tokenizer", nullptr, "dir/tokenizer.json: pre_tokenizer is missing"},
    {"/pre_tokenizer/type", "Metaspace", "dir/tokenizer.json: pre_tokenizer.type 'Metaspace' is not supported"},
    {"/pre_tokenizer", {{"type", "Digits"}, {"individual_digits", true}}, "that ends in it"},
    {"/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", json::array()}}, "that ends in it"},
    {"/decoder", nullptr, "dir/tokenizer.json: decoder is missing"},
    {"/decoder/type", "Metaspace",
     "dir/tokenizer.json: decoder.type 'Metaspace' is not supported; only 'ByteLevel' is"},
    {"/post_processor",
     {{"type", "BertProcessing"}},
     "dir/tokenizer.json: post_processor.type 'BertProcessing' is not supported; 'TemplateProcessing'"},
    {"/added_tokens/0", added_token("", 256), "dir/tokenizer.json: added_tokens[0].content '' must not be empty"},
    {"/added_tokens/0", added_token("<x>", 65), "the token id 65 of '<x>' is taken by another token"},
    {"/added_tokens/0", added_token("a", 300), "added_tokens gives 'a' the id 300, model.vocab gives it 97"},
    {"/added_tokens/0", added_token("<x>", 300, {{"single_word", true}}), "added_tokens[0].single_word true is not"},
    {"/added_tokens/0", added_token("<x>", 300, {{"weight", 2}}), "added_tokens[0].weight 2 is a key not known here"},
    {"/added_tokens/0", added_token("<x>", 1 << 20), "added_tokens[0].id 1048576 is no token id"},
    {"/added_tokens", {added_token("<x>", 300), added_token("<x>", 301)}, "added_tokens has '<x>' twice"},
};

TEST(TokenizerErrors, NameFileKeyAndValue) {
  const json good = small_tokenizer({{"a", "b"}});
  ASSERT_EQ(error_of(good.dump()), "no error");
  for (const Change& change : kChanges) {
    json document = good;
    document[json::json_pointer(change.pointer)] = change.value;
    EXPECT_NE(error_of(document.dump()).find(change.message), std::string::npos)
        << change.pointer << " gave: " << error_of(document.dump());
  }
}

// As such parts are written: with keys that the supported types lack, which must not take the blame.
const Change kOtherTypes[] = {
    {"/model",
     {{"type", "Unigram"},
      {"unk_id", 2},
      {"vocab", json::array({json::array({"<pad>", 0.0})})},
      {"byte_fallback", false}},
     "dir/tokenizer.json: model.type 'Unigram' is not supported; only 'BPE' is"},
    {"/normalizer",
     {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}},
     "dir/tokenizer.json: normalizer.type 'Replace' is not supported; only 'NFC' is"},
    {"/normalizer",
     {{"type", "Sequence"}, {"normalizers", json::array({{{"type", "Prepend"}, {"prepend", "_"}}})}},
     "dir/tokenizer.json: normalizer.normalizers[0].type 'Prepend' is not supported; only 'NFC' is"},
    {"/pre_tokenizer",
     {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "always"}},
     "dir/tokenizer.json: pre_tokenizer.type 'Metaspace' is not supported; 'Split', 'Digits', 'ByteLevel' and "
     "'Sequence' are"},
    {"/decoder",
     {{"type", "Sequence"}, {"decoders", json::array({{{"type", "Replace"}, {"content", " "}}})}},
     "dir/tokenizer.json: decoder.decoders[0].type 'Replace' is not supported; only 'ByteLevel' is"},
    {"/post_processor",
     {{"type", "RobertaProcessing"},
      {"sep", json::array({"</s>", 2})},
      {"cls", json::array({"<s>", 0})},
      {"trim_offsets", true}},
     "dir/tokenizer.json: post_processor.type 'RobertaProcessing' is not supported; 'TemplateProcessing', 'ByteLevel' "
     "and 'Sequence' are"},
};

TEST(TokenizerErrors, NameTheTypeOfAPartThatIsNotSupported) {
  const json good = small_tokenizer({{"a", "b"}});
  for (const Change& change : kOtherTypes) {
    json document = good;
    document[json::json_pointer(change.pointer)] = change.value;
    EXPECT_EQ(error_of(document.dump()), change.message);
  }
}

// Not its decoder or its normalizer, which are other ones as well.
TEST(TokenizerErrors, NameTheModelFirst) {
  json document = small_tokenizer();
  for (const Change& change : kOtherTypes) document[json::json_pointer(change.pointer)] = change.value;
  EXPECT_EQ(error_of(document.dump()), kOtherTypes[0].message);
}

// An unknown token has no use where no byte is unknown, and would be needed where one is.
TEST(TokenizerErrors, NameAnUnknownTokenThatIsNeeded) {
  json document = small_tokenizer();
  document["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(error_of(document.dump()), "no error");
  document["model"]["vocab"].erase("x");
  EXPECT_EQ(error_of(document.dump()),
            "dir/tokenizer.json: model.unk_token '<unk>' is not supported where model.vocab lacks a byte");
}

json with_split(const json& changes) {
  json document = small_tokenizer();
  json split = {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Isolated"}, {"invert", false}};
  split.update(changes);
  const json byte_level = document["pre_tokenizer"];
  document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
  return document;
}

TEST(TokenizerErrors, NameWhatASplitDoesNotSupport) {
  const std::string place = "dir/tokenizer.json: pre_tokenizer.pretokenizers[0]";
  const std::pair<json, std::string> changes[] = {
      {{{"behavior", "Removed"}}, place + ".behavior 'Removed' is not supported"},
      {{{"invert", true}}, place + ".invert true is not supported"},
      {{{"pattern", {{"String", " "}}}}, place + ".pattern.String ' ' is a key not known here"},
      {{{"pattern", {{"Regex", "\\w+"}}}}, place + ".pattern.Regex: the pattern '\\w+' is not supported: '\\w'"},
      {{{"pattern", {{"Regex", "(a"}}}}, place + ".pattern.Regex: the pattern '(a' is not supported: missing"},
  };
  EXPECT_EQ(error_of(with_split(json::object()).dump()), "no error");
  for (const auto& [change, message] : changes) {
    const std::string error = error_of(with_split(change).dump());
    EXPECT_EQ(error.substr(0, message.size()), message);
  }
}

json with_template(const json& single) {
  json document = small_tokenizer();
  document["added_tokens"] = json::array({added_token("<s>", 256)});
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", single},
                                {"pair", json::array()},
                                {"special_tokens", {{"<s>", {{"ids", {256}}}}, {"<t>", {{"ids", {257}}}}}}};
  return document;
}

TEST(TokenizerErrors, NameWhatATemplateDoesNotSupport) {
  const auto sequence = [](const char* id) { return json{{"Sequence", {{"id", id}, {"type_id", 0}}}}; };
  const auto special = [](const char* id) { return json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}}; };
  const auto error = [](const json& single) { return error_of(with_template(single).dump()); };
  EXPECT_EQ(error({special("<s>"), sequence("A")}), "no error");
  EXPECT_NE(error(json::array({sequence("B")})).find("single[0].Sequence.id 'B' is not supported"), std::string::npos);
  EXPECT_NE(error({sequence("A"), sequence("A")}).find("single[1].Sequence.id 'A' is not"), std::string::npos);
  EXPECT_NE(error(json::array({special("<s>")})).find("has no place for the text"), std::string::npos);
  EXPECT_NE(error({special("<u>"), sequence("A")}).find("special_tokens.<u> is missing"), std::string::npos);
  EXPECT_NE(error({special("<t>"), sequence("A")}).find("the token id 257 around a text"), std::string::npos);
}

TEST(TokenizerErrors, RefuseWhatIsNoJson) {
  for (const std::string_view text :
       {"", "{", "null,", "{\"version\": \"\xFF\"}", "\"\\ud800\"", "{\"version\": 1e999}"}) {
    EXPECT_EQ(error_of(text), "dir/tokenizer.json: not a JSON document") << text;
  }
  EXPECT_EQ(error_of("[]"), "dir/tokenizer.json: (an array of 0) must be an object");
  EXPECT_EQ(error_of("3"), "dir/tokenizer.json: 3 must be an object");
}

// One of the two would be passed over.
TEST(TokenizerErrors, NameAKeyThatIsGivenTwice) {
  std::string document = small_tokenizer().dump();
  EXPECT_EQ(error_of(document), "no error");
  const std::string vocab = "\"vocab\":{";
  document.insert(document.find(vocab) + vocab.size(), "\"a\":97,");
  EXPECT_EQ(error_of(document), "dir/tokenizer.json: key 'a' is given twice");
  EXPECT_EQ(error_of(R"({"model": {}, "model": {}})"), "dir/tokenizer.json: key 'model' is given twice");
}

// Neither parsing nor the message may go one level deeper on the stack for each bracket.
TEST(TokenizerErrors, SurviveDeepNesting) {
  std::string deep = "{\"normalizer\": ";
  for (int i = 0; i < 200'000; ++i) deep += '[';
  for (int i = 0; i < 200'000; ++i) deep += ']';
  EXPECT_EQ(error_of(deep + "}"), "dir/tokenizer.json: nested deeper than 64 levels");
}

TEST(TokenizerErrors, NameAFileThatIsNotThere) {
  const std::pair<std::string, std::string> cases[] = {{"/nonexistent/tokenizer.json", ": there is no such file"},
                                                       {"/", ": is not a regular file"}};
  for (const auto& [path, reason] : cases) {
    try {
      Tokenizer::load(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), path + reason);
    }
  }
}

}  // namespace
}  // namespace reprofuse::text
