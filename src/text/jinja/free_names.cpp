#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/evaluator.hpp"

namespace reprofuse::text::jinja {
namespace {

using Names = std::set<std::string>;

// Walks a template as Evaluator does, but through every branch, and keeps what is surely set at each place.
class FreeNames {
 public:
  Names take() { return std::move(free_); }

  void walk(const Block& block) {
    for (const Statement& statement : block) std::visit([this](const auto& node) { look(node); }, statement.node);
  }

 private:
  // Statements.
  void look(const Text&) {}
  void look(const Break&) {}
  void look(const Continue&) {}
  void look(const Print& node) { walk(node.value); }
  void look(const Scoped& node) { walk_scoped(node.body, {}); }

  void look(const If& node) {
    const Names before = set_.back();
    std::vector<Names> ends;
    for (const auto& [condition, block] : node.branches) {
      set_.back() = before;
      walk(condition);
      walk(block);
      ends.push_back(set_.back());
    }
    set_.back() = before;
    walk(node.otherwise);
    for (const Names& end : ends) keep_common(end);
  }

  void look(const For& node) {
    walk(node.items);
    Names inside(node.targets.begin(), node.targets.end());
    set_.push_back(inside);
    walk(node.condition);
    set_.pop_back();
    inside.insert("loop");
    walk_scoped(node.body, inside);
    walk_scoped(node.otherwise, {});
  }

  void look(const Set& node) {
    walk(node.value);
    set_.back().insert(node.targets.begin(), node.targets.end());
  }

  void look(const SetAttribute& node) {
    read(node.name);
    walk(node.value);
  }

  void look(const SetBlock& node) {
    walk_scoped(node.body, {});
    walk(node.filters);
    set_.back().insert(node.name);
  }

  void look(const std::unique_ptr<const Macro>& node) {
    set_.back().insert(node->name);
    set_.emplace_back();
    for (const auto& [name, otherwise] : node->parameters) {
      walk(otherwise);
      set_.back().insert(name);
    }
    walk(node->body);
    set_.pop_back();
  }

  // Expressions.
  void walk(const ExpressionPtr& expression) {
    if (expression) std::visit([this](const auto& node) { look(node); }, expression->node);
  }
  void walk(const ExpressionList& list) {
    for (const ExpressionPtr& expression : list) walk(expression);
  }
  template <typename First>
  void walk(const std::vector<std::pair<First, ExpressionPtr>>& pairs) {
    for (const auto& [first, second] : pairs) {
      if constexpr (std::is_same_v<First, ExpressionPtr>) walk(first);
      walk(second);
    }
  }
  void walk(const CallArguments& arguments) {
    walk(arguments.positional);
    walk(arguments.named);
  }

  void look(const Literal&) {}
  void look(const Name& node) { read(node.name); }
  void look(const SequenceLiteral& node) { walk(node.items); }
  void look(const MappingLiteral& node) { walk(node.items); }
  void look(const Unary& node) { walk(node.operand); }
  void look(const Binary& node) { walk_all(node.left, node.right); }
  void look(const Concatenation& node) { walk(node.parts); }
  void look(const Logical& node) { walk_all(node.left, node.right); }
  void look(const Comparison& node) { walk_all(node.first, node.rest); }
  void look(const Conditional& node) { walk_all(node.condition, node.then, node.otherwise); }
  void look(const Attribute& node) { walk(node.object); }
  void look(const Subscript& node) { walk_all(node.object, node.key); }
  void look(const Slice& node) { walk_all(node.object, node.start, node.stop, node.step); }
  void look(const Call& node) { walk_all(node.callee, node.arguments); }
  void look(const FilterCall& node) { walk_all(node.input, node.arguments); }
  void look(const TestCall& node) { walk_all(node.operand, node.arguments); }

  template <typename... Parts>
  void walk_all(const Parts&... parts) {
    (walk(parts), ...);
  }

  void walk_scoped(const Block& block, const Names& inside) {
    set_.push_back(inside);
    walk(block);
    set_.pop_back();
  }

  void keep_common(const Names& other) {
    std::erase_if(set_.back(), [&](const std::string& name) { return !other.contains(name); });
  }

  void read(const std::string& name) {
    const auto sets_it = [&](const Names& names) { return names.contains(name); };
    if (std::none_of(set_.begin(), set_.end(), sets_it) && find_function(name) == nullptr) free_.insert(name);
  }

  std::vector<Names> set_ = {{}};  // of each block that is open; the template's own first
  Names free_;
};

}  // namespace

std::set<std::string> free_names(const Block& block) {
  FreeNames walker;
  walker.walk(block);
  return walker.take();
}

}  // namespace reprofuse::text::jinja
