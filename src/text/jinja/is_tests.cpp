#include <algorithm>
#include <array>

#include "text/jinja/evaluator.hpp"
#include "text/jinja/markers.hpp"

namespace reprofuse::text::jinja {
namespace {

bool is_integer(const TestInput& input) {
  return input.value.get_if<std::int64_t>() != nullptr;
}
bool is_float(const TestInput& input) {
  return input.value.get_if<double>() != nullptr;
}
bool is_boolean(const TestInput& input) {
  return input.value.get_if<bool>() != nullptr;
}
bool is_number(const TestInput& input) {
  return is_integer(input) || is_float(input) || is_boolean(input);
}
bool is_string(const TestInput& input) {
  return input.value.string() != nullptr;
}
bool is_mapping(const TestInput& input) {
  return input.value.mapping() != nullptr;
}
bool is_none(const TestInput& input) {
  return input.value.is_none();
}
bool is_defined(const TestInput& input) {
  return !input.value.is_undefined();
}
bool is_undefined(const TestInput& input) {
  return input.value.is_undefined();
}
bool is_true(const TestInput& input) {
  return is_boolean(input) && *input.value.get_if<bool>();
}
bool is_false(const TestInput& input) {
  return is_boolean(input) && !*input.value.get_if<bool>();
}
bool is_callable(const TestInput& input) {
  return input.value.get_if<Callable>() != nullptr;
}

bool is_iterable(const TestInput& input) {
  require_defined(input.value, input.user);  // Jinja2 says yes, other implementations no
  return is_string(input) || is_mapping(input) || input.value.sequence() != nullptr;
}

bool is_sequence(const TestInput& input) {
  require_defined(input.value, input.user);
  const Sequence* sequence = input.value.sequence();
  if (sequence == nullptr) return is_string(input) || is_mapping(input);
  if (sequence->kind == SequenceKind::kView) template_error("{}: add |list first", input.user);
  return sequence->kind != SequenceKind::kIterator;
}

bool is_divisible(const TestInput& input) {
  const std::int64_t divisor = require_integer(*input.argument, input.user);
  if (divisor == 0) template_error("{}: division by zero", input.user);
  // -1 divides everything, but INT64_MIN % -1 overflows.
  return divisor == -1 || require_integer(input.value, input.user) % divisor == 0;
}

bool is_even(const TestInput& input) {
  return require_integer(input.value, input.user) % 2 == 0;
}
bool is_odd(const TestInput& input) {
  return !is_even(input);
}

template <Comparator kComparator>
bool compares(const TestInput& input) {
  const Markers* markers = input.runtime.markers;
  if (markers == nullptr) return compare(kComparator, input.value, *input.argument, input.runtime.budget);
  return compare(kComparator, markers->spelled(input.value), markers->spelled(*input.argument), input.runtime.budget);
}

constexpr std::array kTests = {
    Test{"!=", "test '!='", compares<Comparator::kNotEqual>, true},
    Test{"<", "test '<'", compares<Comparator::kLess>, true},
    Test{"<=", "test '<='", compares<Comparator::kLessEqual>, true},
    Test{"==", "test '=='", compares<Comparator::kEqual>, true},
    Test{">", "test '>'", compares<Comparator::kGreater>, true},
    Test{">=", "test '>='", compares<Comparator::kGreaterEqual>, true},
    Test{"boolean", "test 'boolean'", is_boolean},
    Test{"callable", "test 'callable'", is_callable},
    Test{"defined", "test 'defined'", is_defined},
    Test{"divisibleby", "test 'divisibleby'", is_divisible, true},
    Test{"eq", "test 'eq'", compares<Comparator::kEqual>, true},
    Test{"equalto", "test 'equalto'", compares<Comparator::kEqual>, true},
    Test{"even", "test 'even'", is_even},
    Test{"false", "test 'false'", is_false},
    Test{"float", "test 'float'", is_float},
    Test{"ge", "test 'ge'", compares<Comparator::kGreaterEqual>, true},
    Test{"greaterthan", "test 'greaterthan'", compares<Comparator::kGreater>, true},
    Test{"gt", "test 'gt'", compares<Comparator::kGreater>, true},
    Test{"in", "test 'in'", compares<Comparator::kIn>, true},
    Test{"integer", "test 'integer'", is_integer},
    Test{"iterable", "test 'iterable'", is_iterable},
    Test{"le", "test 'le'", compares<Comparator::kLessEqual>, true},
    Test{"lessthan", "test 'lessthan'", compares<Comparator::kLess>, true},
    Test{"lt", "test 'lt'", compares<Comparator::kLess>, true},
    Test{"mapping", "test 'mapping'", is_mapping},
    Test{"ne", "test 'ne'", compares<Comparator::kNotEqual>, true},
    Test{"none", "test 'none'", is_none},
    Test{"number", "test 'number'", is_number},
    Test{"odd", "test 'odd'", is_odd},
    Test{"sequence", "test 'sequence'", is_sequence},
    Test{"string", "test 'string'", is_string},
    Test{"true", "test 'true'", is_true},
    Test{"undefined", "test 'undefined'", is_undefined},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(), [&](const Test& test) { return test.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

bool apply_test(const Test& test, const Value& value, const Arguments& arguments, Runtime& runtime) {
  runtime.budget.spend_steps(1);
  if (!test.takes_argument) {
    const Parameters none(test.user, arguments, {});
    return test.apply({test.user, value, nullptr, runtime});
  }
  const Parameters parameters(test.user, arguments, {"other"}, 1);
  return test.apply({test.user, value, &parameters[0], runtime});
}

}  // namespace reprofuse::text::jinja
