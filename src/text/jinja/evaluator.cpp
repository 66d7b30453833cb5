#include "text/jinja/evaluator.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "text/jinja/markers.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {
namespace {

// An expression as a reader would name it in an error: message.tool_calls[0].
std::string describe(const Expression& expression) {
  if (const auto* name = std::get_if<Name>(&expression.node)) return name->name;
  if (const auto* attribute = std::get_if<Attribute>(&expression.node)) {
    return describe(*attribute->object) + "." + attribute->name;
  }
  if (const auto* subscript = std::get_if<Subscript>(&expression.node)) {
    const auto* literal = std::get_if<Literal>(&subscript->key->node);
    const std::string* text = literal ? literal->value.string() : nullptr;
    const auto* index = literal ? literal->value.get_if<std::int64_t>() : nullptr;
    const std::string key = text ? "'" + *text + "'" : index ? std::to_string(*index) : describe(*subscript->key);
    return describe(*subscript->object) + "[" + key + "]";
  }
  return "...";
}

Value value_or_undefined(std::optional<Value> value, const Expression& object, std::string_view member) {
  if (value) return *std::move(value);
  return Value::undefined(describe(object) + std::string(member));
}

}  // namespace

Value Evaluator::evaluate(const Expression& expression) {
  try {
    const Budget::Level level(runtime_.budget);
    runtime_.budget.spend_steps(1);
    return std::visit([this](const auto& node) { return compute(node); }, expression.node);
  } catch (TemplateError& error) {
    if (error.line() == 0) error.set_line(expression.line);
    throw;
  }
}

Arguments Evaluator::evaluate(const CallArguments& arguments) {
  Arguments values;
  for (const ExpressionPtr& argument : arguments.positional) values.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : arguments.named) values.named.emplace_back(name, evaluate(*argument));
  return values;
}

const Value* Evaluator::find_variable(std::string_view name) const {
  for (std::size_t i = scopes_.size(); i > visible_from_; --i) {
    const auto found = scopes_[i - 1].find(name);
    if (found != scopes_[i - 1].end()) return &found->second;
  }
  const auto found = scopes_.front().find(name);
  return found != scopes_.front().end() ? &found->second : nullptr;
}

Value Evaluator::compute(const Literal& node) {
  return node.value;
}

Value Evaluator::compute(const Name& node) {
  if (const Value* value = find_variable(node.name)) return *value;
  if (const Function* function = find_function(node.name)) return Value(Callable{nullptr, function});
  const bool in_macro = visible_from_ > 0;
  if (in_macro && (node.name == "varargs" || node.name == "kwargs" || node.name == "caller")) {
    template_error("'{}' in a macro is not supported", node.name);
  }
  return Value::undefined(node.name);
}

Value Evaluator::compute(const SequenceLiteral& node) {
  runtime_.budget.spend_bytes(node.items.size() * sizeof(Value));
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item));
  return Value::sequence(std::move(items), node.kind);
}

Value Evaluator::compute(const MappingLiteral& node) {
  MappingItems items;
  for (const auto& [key, value] : node.items) {
    const Value name = evaluate(*key);
    runtime_.budget.spend_bytes(2 * sizeof(Value) + require_string(name, "key of a mapping").size());
    items.emplace_back(*name.string(), evaluate(*value));
  }
  return Value::mapping(std::move(items));
}

Value Evaluator::compute(const Unary& node) {
  Value operand = evaluate(*node.operand);
  if (node.operation == UnaryOperator::kNot) return Value(!operand.truthy());
  Value negated = negate(operand);  // for a plus too: it asks for a number
  if (node.operation == UnaryOperator::kMinus) return negated;
  return operand;
}

Value Evaluator::compute(const Binary& node) {
  const Value left = evaluate(*node.left);
  return arithmetic(node.operation, left, evaluate(*node.right), runtime_.budget);
}

Value Evaluator::compute(const Concatenation& node) {
  std::string text;
  for (const ExpressionPtr& part : node.parts) text += to_text(evaluate(*part), runtime_.budget);
  return Value(std::move(text));
}

Value Evaluator::compute(const Logical& node) {
  Value left = evaluate(*node.left);
  return left.truthy() == node.is_and ? evaluate(*node.right) : std::move(left);
}

Value Evaluator::compute(const Comparison& node) {
  Value left = evaluate(*node.first);
  for (const auto& [comparator, operand] : node.rest) {
    Value right = evaluate(*operand);
    const Markers* markers = runtime_.markers;  // what a template compares with is spelled out
    const bool holds = markers == nullptr
                           ? compare(comparator, left, right, runtime_.budget)
                           : compare(comparator, markers->spelled(left), markers->spelled(right), runtime_.budget);
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::compute(const Conditional& node) {
  if (evaluate(*node.condition).truthy()) return evaluate(*node.then);
  return node.otherwise ? evaluate(*node.otherwise) : Value::undefined("the missing else of an inline if");
}

Value Evaluator::compute(const Attribute& node) {
  const Value object = evaluate(*node.object);
  require_defined(object, fmt::format("attribute '{}'", node.name));
  return value_or_undefined(get_attribute(object, node.name), *node.object, "." + node.name);
}

Value Evaluator::compute(const Subscript& node) {
  const Value object = evaluate(*node.object);
  require_defined(object, "index");
  const Value key = evaluate(*node.key);
  require_defined(key, "index");
  std::optional<Value> item = get_item(object, key, runtime_.budget);
  if (item) return *std::move(item);
  return value_or_undefined(std::nullopt, *node.object, "[" + to_text(key, runtime_.budget) + "]");
}

Value Evaluator::compute(const Slice& node) {
  const Value object = evaluate(*node.object);
  require_defined(object, "slice");
  const auto bound = [this](const ExpressionPtr& expression) -> std::optional<std::int64_t> {
    if (!expression) return std::nullopt;
    const Value value = evaluate(*expression);
    if (value.is_none()) return std::nullopt;
    return require_integer(value, "slice");
  };
  SliceBounds bounds;
  bounds.start = bound(node.start);
  bounds.stop = bound(node.stop);
  bounds.step = bound(node.step).value_or(1);
  return slice(object, bounds, runtime_.budget);
}

Value Evaluator::compute(const Call& node) {
  if (const auto* name = std::get_if<Name>(&node.callee->node)) return call_named(*name, evaluate(node.arguments));
  const auto& method = std::get<Attribute>(node.callee->node);
  const Value object = evaluate(*method.object);
  require_defined(object, fmt::format("method '{}'", method.name));
  return call_method(object, method.name, evaluate(node.arguments), runtime_);
}

Value Evaluator::call_named(const Name& callee, const Arguments& arguments) {
  const Value value = compute(callee);
  if (value.is_undefined()) template_error("function '{}' is not supported", callee.name);
  const auto* callable = value.get_if<Callable>();
  if (callable == nullptr) template_error("'{}' is a value of type {}, not a function", callee.name, value.type_name());
  return callable->macro ? call_macro(*callable->macro, arguments) : callable->function->call(arguments, runtime_);
}

Value Evaluator::compute(const FilterCall& node) {
  const Value input = evaluate(*node.input);
  return apply_filter(*node.filter, input, evaluate(node.arguments), runtime_);
}

Value Evaluator::compute(const TestCall& node) {
  const Value operand = evaluate(*node.operand);
  return Value(apply_test(*node.test, operand, evaluate(node.arguments), runtime_) != node.negated);
}

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
