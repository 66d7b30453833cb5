// The target: tokenizer.json, and any text through the tokenizers of the tests.
#include <string>
#include <string_view>

#include "bytes_target.hpp"
#include "reprofuse/tokenizer.hpp"
#include "text/tokenizer/detokenizer.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::fuzz {
namespace {

using namespace reprofuse::text;
using Ids = std::vector<std::int32_t>;

constexpr std::string_view kProbeText =
    "ab abab  a\r\n\n 'S 123 <s>\xC3\xA9"
    "e\xCC\x81\xE6\x95\xB0<m> \xF0\x9F\x98\x80";

// Decoding takes whatever encoding gives, and a stream gives the same text.
std::optional<std::string> check_ids(const Tokenizer& tokenizer, const Ids& ids, Sabotage sabotage) {
  for (const std::int32_t id : ids)
    if (id < 0 || static_cast<std::size_t>(id) >= tokenizer.vocab_size()) return "an id is not below vocab_size";
  for (const bool skip : {false, true}) {
    text::StreamDetokenizer stream(tokenizer, skip);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.push(id);
    streamed += stream.flush();
    if (sabotage == Sabotage::kAlterResult) streamed += 'x';
    if (streamed != tokenizer.decode(ids, skip)) return "a stream gives another text than decode";
    if (find_invalid_utf8(streamed)) return "decode gives what is not UTF-8";
  }
  return std::nullopt;
}

std::optional<std::string> try_document(const std::string& json, Sabotage sabotage) {
  const Tokenizer tokenizer = Tokenizer::from_json(json, "fuzz");
  return check_ids(tokenizer, tokenizer.encode(kProbeText, true), sabotage);
}

struct TestTokenizer {
  Tokenizer tokenizer;
  bool keeps_text;  // neither adds nor strips spaces
};

const std::vector<TestTokenizer>& test_tokenizers() {
  static const std::vector<TestTokenizer> kTokenizers = [] {
    std::vector<TestTokenizer> tokenizers;
    for (const std::string style : {"llama3", "qwen", "deepseek", "gpt2"}) {
      const std::string path = std::string(REPROFUSE_TEXT_DATA) + "/tokenizer_" + style + ".json";
      tokenizers.push_back({Tokenizer::load(path), style != "gpt2"});
    }
    return tokenizers;
  }();
  return kTokenizers;
}

std::optional<std::string> try_text(const std::string& text, Sabotage sabotage) {
  for (const auto& [tokenizer, keeps_text] : test_tokenizers()) {
    const Ids ids = tokenizer.encode(text, false);
    if (find_invalid_utf8(text)) return "text that is not UTF-8 was encoded";
    if (auto violation = check_ids(tokenizer, ids, sabotage)) return violation;
    // Normalized on both sides: one of the tokenizers normalizes what lies between added tokens.
    if (keeps_text && normalize_nfc(tokenizer.decode(ids, false)) != normalize_nfc(text)) {
      return "decoding gives another text back";
    }
  }
  return std::nullopt;
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  const std::string text(input.begin(), input.end());
  if (!text.starts_with('{')) return outcome_of([&] { return try_text(text, sabotage); });
  const Outcome as_text = outcome_of([&] { return try_text(text, Sabotage::kNone); });
  Outcome as_document = outcome_of([&] { return try_document(text, sabotage); });
  if (as_text.violation) as_document.violation = as_text.violation;
  return as_document;
}

std::vector<Bytes> valid_inputs() {
  constexpr std::string_view kTexts[] = {
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[
          {"id":30,"content":"<s>","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":true},
          {"id":31,"content":"<m>","single_word":false,"lstrip":true,"rstrip":false,"normalized":true,"special":false}],
          "normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[
          {"type":"Split","pattern":{"Regex":"(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
          "behavior":"Isolated","invert":false},{"type":"Digits","individual_digits":true},
          {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},
          "post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
          "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],
          "special_tokens":{"<s>":{"id":"<s>","ids":[30],"tokens":["<s>"]}}}]},"decoder":{"type":"ByteLevel"},
          "model":{"type":"BPE","dropout":null,"unk_token":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":true,
          "vocab":{"a":0,"b":1,"Ġ":2,"Ċ":3,"č":4,"'":5,"S":6,"1":7,"2":8,"3":9,"Ã":10,"©":11,"æ":12,"ķ":13,"°":14,"ð":15,
          "Ł":16,"ĺ":17,"Ģ":18,"ab":19,"Ġab":20,"aba":21,"Ã©":22},
          "merges":["a b","Ġ ab","ab a",["Ã","©"]]}})",
      R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},
          "decoder":{"type":"Sequence","decoders":[{"type":"ByteLevel"}]},"model":{"type":"BPE",
          "vocab":{"a":0,"b":1,"Ġ":2,"Ċ":3,"č":4,"'":5,"S":6,"1":7,"2":8,"3":9,"Ã":10,"©":11,"æ":12,"ķ":13,"°":14,"ð":15,
          "Ł":16,"ĺ":17,"Ģ":18,"<":19,">":20,"s":21,"m":22,"e":23,"Ì":24,"ģ":25},"merges":[]}})",
      "Hello <|eot_id|>world <think> it's 12345 \r\n\n caf\xC3\xA9 cafe\xCC\x81 \xE6\x95\xB0\xE5\xAD\xA6 "
      "\xF0\x9F\x98\x80",
      "<|im_start|>user\n\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB \xC2\x85\xE1\xA0\x8E\xE3\x80\x80<mask> <sep> "
      "<\xEF\xBD\x9CUser\xEF\xBD\x9C>",
  };
  std::vector<Bytes> inputs;
  for (const std::string_view text : kTexts) inputs.emplace_back(text.begin(), text.end());
  return inputs;
}

std::vector<std::string_view> dictionary() {
  return {"(a+)+",
          "(?=",
          "{1,65535}",
          "\\\\p{L}*",
          "\\\\s+",
          "(?i:",
          "[^",
          "|",
          "(*ACCEPT)",
          "\\\\x{10FFFF}",
          "a?",
          R"({"type":"Sequence","pretokenizers":[]})",
          R"("ignore_merges":true,)",
          R"("byte_fallback":true,)",
          R"("normalized":true,)",
          R"("id":1048575,)",
          R"({"type":"NFC"})",
          "\"a b\",",
          "[\"a\",\"b\"],",
          "null",
          "true",
          "[[[[[[[[[[[[[[[[[[[[",
          "{\"a\":",
          "}",
          "]",
          ",",
          "\\ud800",
          "\xFF",
          "<think>",
          "<|eot_id|>",
          "<s>",
          "<m>",
          "  ",
          "\r\n",
          "\xCC\x81",
          "\xCC\xB8",
          "\xE1\x84\x80",
          "\xE1\x85\xA1",
          "\xEF\xBF\xBF",
          "\xF4\x8F\xBF\xBF",
          "'\xC5\xBF"};
}

bool takes_every_input() {
  return false;
}

void repair(Bytes&) {}  // neither JSON nor text has a length to keep in step

}  // namespace reprofuse::fuzz
