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

void add_variables(nlohmann::ordered_json& all, const nlohmann::ordered_json& more, std::string_view what) {
  require(more.is_object(), "{} must be a JSON object, not {}", what, more.type_name());
  for (const auto& [name, value] : more.items()) {
    require(!all.contains(name), "{}: template variable '{}' is already given", what, name);
    all[name] = value;
  }
}

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Block block;
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

std::string ChatTemplate::render(const nlohmann::ordered_json& messages, const ChatVariables& given) const {
  require(messages.is_array(), "{}: messages must be a JSON array, not {}", name_, messages.type_name());
  nlohmann::ordered_json variables = {
      {"messages", messages}, {"tools", given.tools}, {"add_generation_prompt", given.add_generation_prompt}};
  if (given.enable_thinking) variables["enable_thinking"] = *given.enable_thinking;
  add_variables(variables, given.special_tokens, "special_tokens");
  add_variables(variables, given.variables, "variables");
  return render_variables(variables, given.date);
}

std::string ChatTemplate::render_variables(const nlohmann::ordered_json& variables, const DateTime& date) const {
  require(variables.is_object(), "{}: variables must be a JSON object, not {}", name_, variables.type_name());
  try {
    jinja::Variables values;
    for (const auto& [name, value] : variables.items()) values.emplace(name, jinja::from_json(value, name));
    jinja::Runtime runtime{jinja::Budget(limits_), date, {}, markers_.get()};
    return jinja::Evaluator(runtime, std::move(values)).render(parsed_->block);
  } catch (const jinja::TemplateError& error) {
    fail_in(name_, error);
  }
}

}  // namespace reprofuse::text
