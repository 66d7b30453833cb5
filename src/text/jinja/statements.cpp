#include <memory>
#include <optional>
#include <utility>

#include "text/jinja/builtins.hpp"
#include "text/jinja/evaluator.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

// Variables that end with the block they were set in.
class Evaluator::Scope {
 public:
  explicit Scope(Evaluator& evaluator) : evaluator_(evaluator) { evaluator_.scopes_.emplace_back(); }
  ~Scope() { evaluator_.scopes_.pop_back(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Evaluator& evaluator_;
};

std::string Evaluator::render(const Block& block) {
  return capture(block);
}

Evaluator::Flow Evaluator::run(const Block& block) {
  const Budget::Level level(runtime_.budget);
  for (const Statement& statement : block) {
    const Flow flow = run(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const Statement& statement) {
  try {
    runtime_.budget.spend_steps(1);
    return std::visit([this](const auto& node) { return execute(node); }, statement.node);
  } catch (TemplateError& error) {
    if (error.line() == 0) error.set_line(statement.line);
    throw;
  }
}

void Evaluator::write(std::string_view text) {
  runtime_.budget.spend_bytes(text.size());
  *output_ += text;
}

std::string Evaluator::capture(const Block& block) {
  std::string text;
  std::string* outer = std::exchange(output_, &text);
  run(block);
  output_ = outer;
  return text;
}

Evaluator::Flow Evaluator::execute(const Text& statement) {
  write(statement.text);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const Print& statement) {
  const Value value = evaluate(*statement.value);
  if (const std::string* text = value.string()) {
    write(*text);
  } else {
    write(to_text(value, runtime_.budget));
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const If& statement) {
  for (const auto& [condition, block] : statement.branches) {
    if (evaluate(*condition).truthy()) return run(block);
  }
  return run(statement.otherwise);
}

// The items of the loop that meet its condition.
std::vector<Value> Evaluator::items_of(const For& statement) {
  std::vector<Value> items = walk(evaluate(*statement.items), "'for'", runtime_.budget);
  if (!statement.condition) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const Scope scope(*this);
    assign(statement.targets, statement.unpacks, item);
    if (evaluate(*statement.condition).truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

Evaluator::Flow Evaluator::execute(const For& statement) {
  const Value items = Value::sequence(items_of(statement));
  const auto loop = std::make_shared<Loop>();
  loop->items = items.shared_sequence();
  bool has_whole_round = false;  // an `else` also follows rounds that were all cut short, as in Jinja2
  for (; loop->index < loop->items->items.size(); ++loop->index) {
    runtime_.budget.spend_steps(1);
    const Scope scope(*this);
    scopes_.back().emplace("loop", std::shared_ptr<const Loop>(loop));
    assign(statement.targets, statement.unpacks, loop->items->items[loop->index]);
    const Flow flow = run(statement.body);
    if (flow == Flow::kBreak) break;
    has_whole_round = has_whole_round || flow == Flow::kNext;
  }
  if (has_whole_round) return Flow::kNext;
  const Scope scope(*this);
  return run(statement.otherwise);  // a `break` in here belongs to a loop around this one
}

void Evaluator::assign(const std::vector<std::string>& targets, bool unpacks, const Value& value) {
  if (!unpacks) {
    scopes_.back().insert_or_assign(targets.front(), value);
    return;
  }
  std::vector<Value> parts = walk(value, "unpacking", runtime_.budget);
  if (parts.size() != targets.size())
    template_error("cannot unpack {} values into {} names", parts.size(), targets.size());
  for (std::size_t i = 0; i < parts.size(); ++i) scopes_.back().insert_or_assign(targets[i], std::move(parts[i]));
}

Evaluator::Flow Evaluator::execute(const Set& statement) {
  assign(statement.targets, statement.unpacks, evaluate(*statement.value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const SetAttribute& statement) {
  const Value* target = find_variable(statement.name);
  Namespace* const* space = target ? target->get_if<Namespace*>() : nullptr;
  if (space == nullptr) template_error("cannot set '{}.{}': not a namespace", statement.name, statement.attribute);
  Namespace& attributes = **space;  // the value may be computed by code that rebinds the name
  attributes.attributes.insert_or_assign(statement.attribute, evaluate(*statement.value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const SetBlock& statement) {
  Value value;
  {
    const Scope scope(*this);
    value = Value(capture(statement.body));
  }
  for (const ExpressionPtr& filter : statement.filters) {
    const auto& call = std::get<FilterCall>(filter->node);
    value = apply_filter(*call.filter, value, evaluate(call.arguments), runtime_);
  }
  scopes_.back().insert_or_assign(statement.name, std::move(value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const Scoped& statement) {
  const Scope scope(*this);
  return run(statement.body);
}

Evaluator::Flow Evaluator::execute(const std::unique_ptr<const Macro>& statement) {
  scopes_.back().insert_or_assign(statement->name, Value(Callable{statement.get(), nullptr}));
  return Flow::kNext;
}

Value Evaluator::call_macro(const Macro& macro, const Arguments& arguments) {
  const std::size_t visible_from = std::exchange(visible_from_, scopes_.size());
  const Scope scope(*this);
  bind_parameters(macro, arguments);
  std::string text = capture(macro.body);
  visible_from_ = visible_from;
  return Value(std::move(text));
}

void Evaluator::bind_parameters(const Macro& macro, const Arguments& arguments) {
  if (arguments.positional.size() > macro.parameters.size()) {
    template_error("macro '{}': takes at most {} arguments, not {}", macro.name, macro.parameters.size(),
                   arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    scopes_.back().insert_or_assign(macro.parameters[i].first, arguments.positional[i]);
  }
  for (const auto& [name, value] : arguments.named) {
    bool known = false;
    for (const auto& parameter : macro.parameters) known = known || parameter.first == name;
    if (!known) template_error("macro '{}': has no parameter '{}'", macro.name, name);
    if (!scopes_.back().emplace(name, value).second) {
      template_error("macro '{}': argument '{}' is given twice", macro.name, name);
    }
  }
  for (const auto& [name, otherwise] : macro.parameters) {
    if (scopes_.back().count(name) != 0) continue;
    Value value = otherwise ? evaluate(*otherwise) : Value::undefined(name);
    scopes_.back().emplace(name, std::move(value));
  }
}

}  // namespace reprofuse::text::jinja
