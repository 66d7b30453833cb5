// The target: any bytes as a chat template. It renders or fails with an Error, in bounded time and memory.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bytes_target.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::fuzz {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = 1 << 20;
const fs::path kTests = REPROFUSE_TEXT_TESTS;

// Every role, and a value of every type.
const Json& messages() {
  static const Json kMessages = Json::parse(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "<think>\n\u00e9\ud83d\ude00</think> 1 < 2 "},
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function":
      {"name": "f", "arguments": {"a": [1, 2.5, true, null], "b": {"c": "x"}}}}]},
    {"role": "tool", "content": {"result": "7"}},
    {"role": "user", "content": "And now?", "weight": 0}])");
  return kMessages;
}

std::string render(std::string_view source) {
  text::jinja::Limits limits;
  limits.steps = 20'000;
  limits.bytes = kMaxBytes;
  static const Json kSpecialTokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return text::ChatTemplate(source, "fuzzed", limits).render(messages(), {}, kSpecialTokens);
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  return outcome_of([&]() -> std::optional<std::string> {
    const std::string_view source(reinterpret_cast<const char*>(input.data()), input.size());
    std::string text = render(source);
    if (sabotage == Sabotage::kAlterResult) text += '\xff';
    if (text::find_invalid_utf8(text)) return "the text is not UTF-8";
    if (text.size() > kMaxBytes) return "the text is longer than allowed";
    if (text != render(source)) return "rendered again, the text is another";
    return std::nullopt;
  });
}

// The templates and cases of the tests that need no variables of their own.
std::vector<Bytes> valid_inputs() {
  std::vector<Bytes> inputs;
  const auto add = [&](const std::string& source) { inputs.emplace_back(source.begin(), source.end()); };
  for (const auto& entry : fs::directory_iterator(kTests / "chat_template_templates")) {
    std::ifstream file(entry.path(), std::ios::binary);
    add(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  const Json refused = Json::parse(std::ifstream(kTests / "jinja_differences.json"));
  for (const Json& entry : Json::parse(std::ifstream(kTests / "jinja_cases.json"))) {
    const auto id = entry["id"].get<std::string>();
    const bool renders = !refused.contains(id) || !refused[id].is_null();
    if (renders && !entry.contains("variables")) add(entry["template"].get<std::string>());
  }
  return inputs;
}

std::vector<std::string_view> dictionary() {
  return {"{{",
          "}}",
          "{%",
          "%}",
          "{#",
          "#}",
          "-%}",
          "{%-",
          "{% for x in messages %}",
          "{% endfor %}",
          "{% if x %}",
          "{% else %}",
          "{% endif %}",
          "{% set n.x = ",
          "namespace(x=",
          "{% macro f(x) %}",
          "{% endmacro %}",
          "f(",
          "loop.index0",
          "[::-1]",
          "['content']",
          ".items()",
          "|tojson(indent=4)",
          "|map(attribute='role')",
          "|selectattr('role', 'in', [",
          "|sort",
          "|list",
          "|join(",
          " is defined",
          " not in ",
          "range(99999)",
          "~",
          "**",
          "9223372036854775807",
          "'\\U0010ffff'",
          ".split(",
          ".replace('', ",
          "messages",
          "* 99999",
          "(((((",
          "[[[[["};
}

bool takes_every_input() {
  return false;
}

void repair(Bytes&) {}  // a template has no length fields

}  // namespace reprofuse::fuzz
