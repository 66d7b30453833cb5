#include "text/chat_template.hpp"

#include <utility>

#include "base/check.hpp"
#include "text/jinja/ast.hpp"
#include "text/jinja/evaluator.hpp"

namespace reprofuse::text {
namespace {

[[noreturn]] void fail_in(const std::string& name, const jinja::TemplateError& error) {
  if (error.line() == 0) fail(ErrorCode::kInvalidArgument, "{}: {}", name, error.what());
  fail(ErrorCode::kInvalidArgument, "{} line {}: {}", name, error.line(), error.what());
}

void add_variables(jinja::Variables& all, const nlohmann::ordered_json& more, std::string_view what) {
  require(more.is_object(), "{} must be a JSON object, not {}", what, more.type_name());
  for (const auto& [name, value] : more.items())
    require(all.emplace(name, jinja::from_json(value, name)).second, "{}: template variable '{}' is already given",
            what, name);
}

template <typename Render>
std::string rendered(const std::string& name, Render render) {
  try {
    return render();
  } catch (const jinja::TemplateError& error) {
    fail_in(name, error);
  }
}

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Block block;

  std::string render(jinja::Variables values, const ChatTemplate& of, const DateTime& date) const {
    jinja::Runtime runtime{jinja::Budget(of.limits_), date, {}, of.markers_.get()};
    return jinja::Evaluator(runtime, std::move(values)).render(block);
  }
};

ChatTemplate::ChatTemplate(std::string_view source, std::string name, const jinja::Limits& limits,
                           std::shared_ptr<const jinja::Markers> markers)
    : name_(std::move(name)), limits_(limits), markers_(std::move(markers)) {
  require(source.size() <= limits_.template_bytes, "{}: {} bytes are more than the {} allowed", name_, source.size(),
          limits_.template_bytes);
  try {
    parsed_ = std::make_unique<const Parsed>(Parsed{jinja::parse(source)});
    variables_ = jinja::free_names(parsed_->block);
  } catch (const jinja::TemplateError& error) {
    fail_in(name_, error);
  }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const nlohmann::ordered_json& messages, const ChatVariables& given,
                                 const nlohmann::ordered_json& special_tokens) const {
  require(messages.is_array(), "{}: messages must be a JSON array, not {}", name_, messages.type_name());
  return rendered(name_, [&] {
    jinja::Variables values;
    values.emplace("messages", jinja::from_json(messages, "messages"));
    values.emplace("tools", jinja::from_json(given.tools, "tools"));
    values.emplace("add_generation_prompt", jinja::from_json(given.add_generation_prompt, "add_generation_prompt"));
    add_variables(values, special_tokens, "special_tokens");
    add_variables(values, *given.variables, "variables");
    return parsed_->render(std::move(values), *this, given.date);
  });
}

std::string ChatTemplate::render_variables(const nlohmann::ordered_json& variables, const DateTime& date) const {
  require(variables.is_object(), "{}: variables must be a JSON object, not {}", name_, variables.type_name());
  return rendered(name_, [&] {
    jinja::Variables values;
    for (const auto& [name, value] : variables.items()) values.emplace(name, jinja::from_json(value, name));
    return parsed_->render(std::move(values), *this, date);
  });
}

}  // namespace reprofuse::text
