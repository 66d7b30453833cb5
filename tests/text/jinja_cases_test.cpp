// Every construct against what @huggingface/jinja prints and, where that strays from Jinja2, what Jinja2 prints.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "reprofuse/error.hpp"
#include "text/chat_template.hpp"

namespace reprofuse::text {
namespace {

using Json = nlohmann::ordered_json;

Json read(const std::string& name) {
  return Json::parse(std::ifstream(std::string(REPROFUSE_TEXT_TESTS) + "/" + name));
}

// The text, or null for an error, as the expected files have it.
Json outcome(const std::string& source, const Json& variables, const DateTime& date) {
  try {
    return ChatTemplate(source, "case").render_variables(variables, date);
  } catch (const Error& error) {
    return nullptr;
  }
}

struct Expectations {
  Json cases = read("jinja_cases.json");
  Json package = read("jinja_expected.json");         // @huggingface/jinja
  Json differences = read("jinja_differences.json");  // Jinja2, where it differs
  DateTime date = parse_date(read("chat_template_conversations.json")["date"].get<std::string>());

  const Json& of(const std::string& id) const { return differences.contains(id) ? differences[id] : package.at(id); }
};

TEST(JinjaCases, PrintWhatJinja2Prints) {
  const Expectations expected;
  ASSERT_GE(expected.cases.size(), 150u);
  for (const Json& entry : expected.cases) {
    const auto id = entry["id"].get<std::string>();
    const Json variables = entry.value("variables", Json::object());
    EXPECT_EQ(outcome(entry["template"], variables, expected.date), expected.of(id)) << id << ": " << entry["template"];
  }
}

// The comparison must be able to fail: one character more in a template is a difference each time.
TEST(JinjaCases, NoticeOneMoreCharacter) {
  const Expectations expected;
  for (const Json& entry : expected.cases) {
    const auto id = entry["id"].get<std::string>();
    if (expected.of(id).is_null()) continue;
    const Json variables = entry.value("variables", Json::object());
    EXPECT_NE(outcome("x" + entry["template"].get<std::string>(), variables, expected.date), expected.of(id)) << id;
  }
}

TEST(JinjaCases, RecordNoDifferenceThatIsNone) {
  const Expectations expected;
  for (const auto& [id, text] : expected.differences.items()) EXPECT_NE(text, expected.package.at(id)) << id;
}

}  // namespace
}  // namespace reprofuse::text
