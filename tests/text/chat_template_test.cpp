// Chat templates over many conversations: equal to @huggingface/jinja, and to Jinja2 where the two differ.
#include "text/chat_template.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse::text {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const fs::path kTests = REPROFUSE_TEXT_TESTS;
const Json kNoTokens = Json::object();

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Json read_json(const std::string& name) {
  return Json::parse(read_text(kTests / name));
}

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return to_hex(hash.finish());
}

std::vector<fs::path> templates_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  }
  return paths;
}

ChatVariables options_of(const Json& data, const Json& variant) {
  ChatVariables options;
  options.add_generation_prompt = variant["add_generation_prompt"];
  options.tools = variant.value("tools", Json());
  options.date = parse_date(data["date"].get<std::string>());
  options.variables = variant.value("variables", Json::object());
  if (variant.contains("enable_thinking")) (*options.variables)["enable_thinking"] = variant["enable_thinking"];
  return options;
}

// Renders every conversation in every variant with one template; returns how many were not as expected.
int count_differences(const fs::path& path, const std::string& appended = "") {
  static const Json data = read_json("chat_template_conversations.json");
  static const Json digests = read_json("chat_template_digests.json");
  static const Json differences = read_json("chat_template_differences.json");
  const std::string source = read_text(path);
  const std::string key = sha256(source);
  if (!digests.contains(key)) {
    ADD_FAILURE() << path << " has no digests; run chat_template_reference.mjs";
    return 0;
  }
  const ChatTemplate chat_template(source + appended, path.filename().string());
  int count = 0;
  for (const Json& conversation : data["conversations"]) {
    for (const Json& variant : data["variants"]) {
      const std::string id = conversation["id"].get<std::string>() + "/" + variant["id"].get<std::string>();
      Json expected = digests[key]["renderings"].at(id);
      // Where the package refuses we do, even if Jinja2 prints "None" or "[{...}]" into the prompt.
      if (!expected.is_null() && differences[key].contains(id)) expected = differences[key][id];
      std::string shown;
      Json actual;
      try {
        shown = chat_template.render(conversation["messages"], options_of(data, variant), data["special_tokens"]);
        actual = sha256(shown);
      } catch (const Error& error) {
        shown = error.what();
      }
      if (actual == expected) continue;
      ++count;
      if (appended.empty()) ADD_FAILURE() << path.filename() << ", " << id << " gives\n" << shown;
    }
  }
  return count;
}

TEST(ChatTemplate, RendersOurTemplatesAsTheReferencesDo) {
  const auto paths = templates_in(kTests / "chat_template_templates");
  ASSERT_EQ(paths.size(), 4u);
  for (const fs::path& path : paths) EXPECT_EQ(count_differences(path), 0);
}

TEST(ChatTemplate, DigestsNoticeOneMoreCharacter) {
  for (const fs::path& path : templates_in(kTests / "chat_template_templates"))
    EXPECT_GT(count_differences(path, "!"), 200);
}

// Llama 3.2, Qwen 2.5, Qwen 3 and DeepSeek-R1-Distill, whose texts are not ours to ship.
TEST(ChatTemplate, RendersTheModelsTemplatesAsTheReferencesDo) {
  const char* folder = std::getenv("REPROFUSE_CHAT_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "REPROFUSE_CHAT_TEMPLATES is not set to the folder with the models' templates";
  const auto paths = templates_in(folder);
  ASSERT_EQ(paths.size(), 4u) << folder;
  for (const fs::path& path : paths) EXPECT_EQ(count_differences(path), 0);
}

TEST(ChatTemplate, SeesOnlyThePinnedDate) {
  const ChatTemplate chat_template("{{ strftime_now('%d %b %Y') }}", "dated");
  EXPECT_EQ(chat_template.render(Json::array(), {}, kNoTokens), "26 Jul 2024");
  ChatVariables options;
  options.date = parse_date("2000-02-29");
  EXPECT_EQ(chat_template.render(Json::array(), options, kNoTokens), "29 Feb 2000");
}

TEST(ChatTemplate, RefusesAVariableGivenTwice) {
  ChatVariables options;
  options.variables = Json{{"messages", 1}};
  EXPECT_THROW(ChatTemplate("x", "t").render(Json::array(), options, kNoTokens), Error);
}

TEST(ChatTemplate, KeepsNothingBetweenRenderings) {
  const ChatTemplate chat_template("{% set n = namespace(x=0) %}{% set n.x = n.x + 1 %}{{ n.x }}", "counter");
  EXPECT_EQ(chat_template.render(Json::array(), {}, kNoTokens), "1");
  EXPECT_EQ(chat_template.render(Json::array(), {}, kNoTokens), "1");
}

TEST(ChatTemplateDate, FormatsEveryDirective) {
  const DateTime date = parse_date("2026-03-04T15:06:07");
  EXPECT_EQ(format_date(date, "%a %A %b %B %d %e %H %I %j %m %M %p %S %y %Y %%"),
            "Wed Wednesday Mar March 04  4 15 03 063 03 06 PM 07 26 2026 %");
  EXPECT_EQ(format_date(parse_date("2024-12-31"), "%j %A %I %p"), "366 Tuesday 12 AM");
  EXPECT_EQ(format_date(parse_date("1970-01-01"), "%A"), "Thursday");
  EXPECT_EQ(to_string(date), "2026-03-04T15:06:07");
  EXPECT_EQ(to_string(parse_date("0001-01-01")), "0001-01-01");
}

TEST(ChatTemplateDate, RefusesDatesThatDoNotExist) {
  for (const char* text : {"2023-02-29", "1900-02-29", "2024-13-01", "2024-00-01", "2024-01-32", "0000-01-01",
                           "2024-1-1", "2024-01-01T24:00:00", "2024-01-01 00:00:00", "today", ""}) {
    EXPECT_THROW(parse_date(text), Error) << text;
  }
  EXPECT_THROW(format_date({}, "%"), Error);
  EXPECT_THROW(format_date({}, "%Z"), Error);
}

TEST(ChatTemplateVariables, AreThoseThatItReadsWithoutHavingSetThemItself) {
  const auto variables = [](const char* source) {
    const ChatTemplate made(source, "test");
    std::string names;
    for (const std::string& name : made.variables()) names += name + " ";
    return names;
  };
  EXPECT_EQ(variables("{{ a.b[c] ~ d(e, f=g) | join(h) }}{{ [i, {'k': j}] if l is defined else m[n:o] }}"),
            "a c d e g h i j l m n o ");
  EXPECT_EQ(variables("{% if not x is defined %}{% set x = 1 %}{% endif %}{{ x }}"), "x ") << "it has a default";
  EXPECT_EQ(variables("{% set x = y %}{{ x }}"), "y ");
  EXPECT_EQ(variables("{% if a %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}"), "a ");
  EXPECT_EQ(variables("{% if a %}{% set x = 1 %}{% elif b %}{% set x = 2 %}{% endif %}{{ x }}"), "a b x ");
  EXPECT_EQ(
      variables("{% for m in messages if m.role == r %}{% set x = loop.index %}{{ x }}{% endfor %}{{ x }}{{ m }}"),
      "m messages r x ")
      << "a loop keeps what it sets to itself";
  EXPECT_EQ(variables("{% macro f(p, q=d) %}{{ p ~ q ~ g }}{% endmacro %}{% set s = namespace(k=v) %}{% set s.k = w %}"
                      "{{ f(range(3)) }}{{ raise_exception(strftime_now('%d')) }}"),
            "d g v w ");
}

}  // namespace
}  // namespace reprofuse::text
