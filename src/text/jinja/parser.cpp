#include "text/jinja/parser.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.hpp"

namespace reprofuse::text::jinja {
namespace {

class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Block run() {
    Block block = parse_block();
    if (!tokens_.is(TokenKind::kEnd)) {  // a statement that ends nothing
      template_error_at(tokens_.line(), "'{}' has no beginning", tokens_.peek(1).text);
    }
    return block;
  }

 private:
  // Up to a statement that ends a block, which is left to the caller, or the end of the template.
  Block parse_block() {
    if (++depth_ > kBlockDepth)
      template_error_at(tokens_.line(), "blocks are nested more than {} levels deep", kBlockDepth);
    Block block;
    while (!tokens_.is(TokenKind::kEnd)) {
      const int line = tokens_.line();
      if (tokens_.is(TokenKind::kText)) {
        block.push_back({line, Text{tokens_.next().text}});
      } else if (tokens_.is(TokenKind::kExpressionBegin)) {
        tokens_.next();
        block.push_back({line, Print{expressions_.parse_tuple()}});
        tokens_.expect(TokenKind::kExpressionEnd, "'}}'");
      } else {
        if (is_block_end(tokens_.peek(1))) break;
        tokens_.next();
        block.push_back(parse_statement(line));
      }
    }
    --depth_;
    return block;
  }

  static bool is_block_end(const Token& name) {
    static constexpr std::string_view kEnds[] = {"elif",   "else",     "endif",        "endfor",
                                                 "endset", "endmacro", "endgeneration"};
    return name.kind == TokenKind::kName && std::find(std::begin(kEnds), std::end(kEnds), name.text) != std::end(kEnds);
  }

  Statement parse_statement(int line) {
    const std::string name = tokens_.expect_any_name("the name of a statement");
    if (name == "if") return {line, parse_if(line)};
    if (name == "for") return {line, parse_for(line)};
    if (name == "set") return parse_set(line);
    if (name == "macro") return {line, parse_macro(line)};
    if (name == "generation") return {line, parse_generation(line)};
    if (name != "break" && name != "continue") template_error_at(line, "statement '{}' is not supported", name);
    if (loops_ == 0) template_error_at(line, "'{}' outside of a loop", name);
    end_tag();
    if (name == "break") return {line, Break{}};
    return {line, Continue{}};
  }

  If parse_if(int line) {
    If statement;
    do {
      ExpressionPtr condition = expressions_.parse_tuple();
      end_tag();
      statement.branches.emplace_back(std::move(condition), parse_block());
    } while (take_tag("elif"));
    if (take_tag("else")) {
      end_tag();
      statement.otherwise = parse_block();
    }
    end_block("if", "endif", line);
    return statement;
  }

  For parse_for(int line) {
    For statement;
    statement.unpacks = parse_targets(statement.targets);
    if (std::find(statement.targets.begin(), statement.targets.end(), "loop") != statement.targets.end()) {
      template_error_at(line, "'loop' cannot be the variable of a loop");
    }
    tokens_.expect_name("in");
    statement.items = expressions_.parse_without_if();
    if (tokens_.take_name("if")) statement.condition = expressions_.parse();
    if (tokens_.is_name("recursive")) template_error_at(line, "recursive loops are not supported");
    end_tag();
    ++scopes_;
    ++loops_;
    statement.body = parse_block();
    --loops_;
    if (take_tag("else")) {
      end_tag();
      statement.otherwise = parse_block();
    }
    --scopes_;
    end_block("for", "endfor", line);
    return statement;
  }

  // `a` or `a, b`, perhaps in parentheses. True when a sequence is to be unpacked.
  bool parse_targets(std::vector<std::string>& targets) {
    const bool parenthesized = tokens_.take_operator("(");
    bool unpacks = false;
    targets.push_back(parse_target());
    while (tokens_.take_operator(",")) {
      unpacks = true;
      if (!tokens_.is(TokenKind::kName) || tokens_.is_name("in")) break;
      targets.push_back(parse_target());
    }
    if (parenthesized) tokens_.expect_operator(")");
    return unpacks;
  }

  std::string parse_target() {
    const int line = tokens_.line();
    std::string name = tokens_.expect_any_name("the name of a variable");
    static constexpr std::string_view kReserved[] = {"true", "True", "false", "False", "none", "None", "and",
                                                     "or",   "not",  "if",    "else",  "in",   "is"};
    if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) {
      template_error_at(line, "cannot assign to '{}'", name);
    }
    return name;
  }

  Statement parse_set(int line) {
    const Token& second = tokens_.peek(1);
    if (second.kind == TokenKind::kOperator && second.text == ".") {
      SetAttribute statement{parse_target(), {}, nullptr};
      tokens_.next();
      statement.attribute = tokens_.expect_any_name("the name of an attribute");
      tokens_.expect_operator("=");
      statement.value = expressions_.parse_tuple();
      end_tag();
      return {line, std::move(statement)};
    }
    std::vector<std::string> targets;
    const bool unpacks = parse_targets(targets);
    if (tokens_.take_operator("=")) {
      Set statement{std::move(targets), unpacks, expressions_.parse_tuple()};
      end_tag();
      return {line, std::move(statement)};
    }
    if (unpacks) tokens_.fail_expecting("'='");
    return {line, parse_set_block(std::move(targets.front()), line)};
  }

  SetBlock parse_set_block(std::string name, int line) {
    SetBlock statement{std::move(name), {}, {}};
    while (tokens_.take_operator("|")) statement.filters.push_back(expressions_.parse_filter(nullptr));
    end_tag();
    statement.body = parse_scope();
    end_block("set", "endset", line);
    return statement;
  }

  std::unique_ptr<const Macro> parse_macro(int line) {
    // Jinja2 lets a macro see the loops around its definition, which would have to outlive them.
    if (scopes_ > 0) template_error_at(line, "a macro inside of another block is not supported");
    auto macro = std::make_unique<Macro>();
    macro->name = parse_target();
    tokens_.expect_operator("(");
    for (bool first = true; !tokens_.take_operator(")"); first = false) {
      if (!first) tokens_.expect_operator(",");
      std::string parameter = parse_target();
      const bool has_default = tokens_.take_operator("=");
      if (!has_default && !macro->parameters.empty() && macro->parameters.back().second) {
        template_error_at(line, "parameter '{}' without a default follows one with a default", parameter);
      }
      macro->parameters.emplace_back(std::move(parameter), has_default ? expressions_.parse() : nullptr);
    }
    end_tag();
    macro->body = parse_scope();
    end_block("macro", "endmacro", line);
    return macro;
  }

  Scoped parse_generation(int line) {
    end_tag();
    Scoped statement{parse_scope()};
    end_block("generation", "endgeneration", line);
    return statement;
  }

  // A block that no `break` leaves.
  Block parse_scope() {
    const int loops = std::exchange(loops_, 0);
    ++scopes_;
    Block block = parse_block();
    --scopes_;
    loops_ = loops;
    return block;
  }

  bool take_tag(std::string_view name) {
    if (!tokens_.is(TokenKind::kStatementBegin) || tokens_.peek(1).text != name) return false;
    tokens_.next();
    tokens_.next();
    return true;
  }

  void end_tag() { tokens_.expect(TokenKind::kStatementEnd, "'%}'"); }

  void end_block(std::string_view name, std::string_view end, int line) {
    if (tokens_.is(TokenKind::kEnd)) template_error_at(line, "'{}' has no '{}'", name, end);
    if (!take_tag(end)) {
      template_error_at(tokens_.line(), "expected '{}' of the '{}' in line {}, not '{}'", end, name, line,
                        tokens_.peek(1).text);
    }
    end_tag();
  }

  static constexpr int kBlockDepth = 50;

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;   // that a `break` could leave here
  int scopes_ = 0;  // blocks around that have variables of their own
};

}  // namespace

Block parse(std::string_view source) {
  return StatementParser(source).run();
}

}  // namespace reprofuse::text::jinja
