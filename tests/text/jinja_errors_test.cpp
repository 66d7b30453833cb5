// What a template cannot do here is an error that names the template, the line and the thing.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "reprofuse/error.hpp"
#include "text/chat_template.hpp"

namespace reprofuse::text {
namespace {

using Json = nlohmann::ordered_json;

std::string error_of(const std::string& source, const Json& variables = Json::object(),
                     const jinja::Limits& limits = {}) {
  try {
    return "no error, but: " + ChatTemplate(source, "chat template", limits).render_variables(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
}

TEST(JinjaErrors, NameWhatIsNotSupported) {
  EXPECT_EQ(error_of("a\n\n{{ x | foo }}"), "chat template line 3: filter 'foo' is not supported");
  EXPECT_EQ(error_of("{{ x is foo }}"), "chat template line 1: test 'foo' is not supported");
  EXPECT_EQ(error_of("\n{% include 'x' %}"), "chat template line 2: statement 'include' is not supported");
  EXPECT_EQ(error_of("{{ lipsum() }}"), "chat template line 1: function 'lipsum' is not supported");
  EXPECT_EQ(error_of("{{ 'a'.center(3) }}"),
            "chat template line 1: method 'center' of a value of type string is not supported");
  EXPECT_EQ(error_of("{{ [1].append(2) }}"),
            "chat template line 1: method 'append' of a value of type list is not supported");
  EXPECT_EQ(error_of("{{ [1] | join(x=2) }}"), "chat template line 1: filter 'join': argument 'x' is not supported");
  EXPECT_EQ(error_of("{% for x in [1] %}{{ loop.cycle }}{% endfor %}"),
            "chat template line 1: 'loop.cycle' is not supported");
  EXPECT_EQ(error_of("{{ strftime_now('%Q') }}"),
            "chat template line 1: function 'strftime_now': date format '%Q' is not supported");
}

// Even in a branch that is never taken.
TEST(JinjaErrors, NameAnUnknownFilterBeforeRendering) {
  EXPECT_EQ(error_of("{% if false %}\n{{ 1 | foo }}\n{% endif %}"),
            "chat template line 2: filter 'foo' is not supported");
}

TEST(JinjaErrors, NameTheUndefinedVariable) {
  const Json variables = {{"m", {{"role", "user"}}}};
  EXPECT_EQ(error_of("{{ 'a' + m.content }}", variables), "chat template line 1: '+': 'm.content' is undefined");
  EXPECT_EQ(error_of("{% for x in m.tool_calls %}{% endfor %}", variables),
            "chat template line 1: 'for': 'm.tool_calls' is undefined");
  EXPECT_EQ(error_of("{{ nothing.role }}"), "chat template line 1: attribute 'role': 'nothing' is undefined");
  EXPECT_EQ(error_of("{{ m.content | trim }}", variables),
            "chat template line 1: filter 'trim': 'm.content' is undefined");
  EXPECT_EQ(error_of("{{ m.content < 1 }}", variables), "chat template line 1: comparison: 'm.content' is undefined");
}

TEST(JinjaErrors, RefuseWrongTypes) {
  EXPECT_EQ(error_of("{{ 'a' + 1 }}"), "chat template line 1: '+': not defined for values of type string and integer");
  EXPECT_EQ(error_of("{{ 'a'.role }}"), "chat template line 1: a value of type string has no attribute 'role'");
  EXPECT_EQ(error_of("{{ none | trim }}"),
            "chat template line 1: filter 'trim': takes a string, not a value of type none");
  EXPECT_EQ(error_of("{{ 1 < 'a' }}"), "chat template line 1: values of type integer and string have no order");
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}"), "chat template line 1: '+': the result does not fit 64 bits");
  EXPECT_EQ(error_of("{{ 1 // 0 }}"), "chat template line 1: '//': division by zero");
  EXPECT_EQ(error_of("{{ 'é' | upper }}"), "chat template line 1: filter 'upper': supports ASCII text only, not 'é'");
  EXPECT_EQ(error_of("{{ {'a': 1}.items }}"),
            "chat template line 1: '.items' is a method of a mapping; its entry is ['items']");
}

// In Python an iterator is always true and empty when walked again: no template can mean that.
TEST(JinjaErrors, RefuseMisusedIterators) {
  EXPECT_EQ(error_of("{% if [] | map('upper') %}{% endif %}"),
            "chat template line 1: an iterator has no truth value; add |list");
  EXPECT_EQ(error_of("{% set i = ['a'] | map('upper') %}{{ i | join }}{{ i | join }}"),
            "chat template line 1: filter 'join': the iterator was used before, and can be used once; add |list");
}

TEST(JinjaErrors, NameBadSyntax) {
  EXPECT_EQ(error_of("{% if x %}"), "chat template line 1: 'if' has no 'endif'");
  EXPECT_EQ(error_of("a\n{% endif %}"), "chat template line 2: 'endif' has no beginning");
  EXPECT_EQ(error_of("{% for x in y %}{% endif %}"),
            "chat template line 1: expected 'endfor' of the 'for' in line 1, not 'endif'");
  EXPECT_EQ(error_of("{{ 'a }}"), "chat template line 1: the string beginning here has no end");
  EXPECT_EQ(error_of("{{ a"), "chat template line 1: the tag has no end '}}'");
  EXPECT_EQ(error_of("{# a"), "chat template line 1: the comment has no end '#}'");
  EXPECT_EQ(error_of("{{ (a] }}"), "chat template line 1: unexpected ']'");
  EXPECT_EQ(error_of("{{ a ? b }}"), "chat template line 1: unexpected character '?'");
  EXPECT_EQ(error_of("{{ }}"), "chat template line 1: expected an expression, not '}}'");
  EXPECT_EQ(error_of("{% break %}"), "chat template line 1: 'break' outside of a loop");
  EXPECT_EQ(error_of("\n\xff"), "chat template line 2: not valid UTF-8");
}

TEST(JinjaErrors, ReportWhatTheTemplateRaises) {
  EXPECT_EQ(error_of("\n{{ raise_exception('Roles must alternate') }}"), "chat template line 2: Roles must alternate");
}

TEST(JinjaLimits, StopAnEndlessTemplate) {
  jinja::Limits limits;
  limits.steps = 10'000;
  EXPECT_EQ(error_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", Json::object(),
                     limits),
            "chat template line 1: gave up after 10000 steps");
  limits.bytes = 1 << 20;
  const std::string doubling =
      "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}";
  EXPECT_EQ(error_of(doubling, Json::object(), limits),
            "chat template line 1: gave up after 1048576 bytes of text and lists");
  EXPECT_EQ(error_of("{{ 'a' * 9000000000000000000 }}", Json::object(), limits),
            "chat template line 1: gave up after 1048576 bytes of text and lists");
}

TEST(JinjaLimits, StopDeepNesting) {
  EXPECT_EQ(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
            "chat template line 1: nested more than 400 levels deep");
  EXPECT_EQ(error_of("{{ " + std::string(1000, '(') + "1" + std::string(1000, ')') + " }}"),
            "chat template line 1: the expression is nested more than 150 levels deep");
  std::string sum = "{{ 1";
  for (int i = 0; i < 1000; ++i) sum += "+1";
  EXPECT_EQ(error_of(sum + " }}"), "chat template line 1: the expression is nested more than 150 levels deep");
  const std::string lists = "{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = [n.l] %}{% endfor %}";
  EXPECT_EQ(error_of(lists), "chat template line 1: lists and mappings are nested more than 100 levels deep");
  std::string blocks;
  for (int i = 0; i < 60; ++i) blocks += "{% if true %}";
  EXPECT_EQ(error_of(blocks), "chat template line 1: blocks are nested more than 50 levels deep");
}

TEST(JinjaLimits, RefuseALongTemplate) {
  jinja::Limits limits;
  limits.template_bytes = 10;
  EXPECT_EQ(error_of("eleven char", Json::object(), limits), "chat template: 11 bytes are more than the 10 allowed");
}

}  // namespace
}  // namespace reprofuse::text
