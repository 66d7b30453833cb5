// The filters of templates: value | name(arguments).
#pragma once

#include <string_view>

#include "text/jinja/runtime.hpp"

namespace reprofuse::text::jinja {

struct FilterInput {
  std::string_view user;  // "filter 'join'"
  const Value& value;
  const Arguments& arguments;
  Runtime& runtime;
};

struct Filter {
  std::string_view name;
  std::string_view user;
  Value (*apply)(const FilterInput& input);
  bool takes_undefined = false;
};

// Null when it is not supported.
const Filter* find_filter(std::string_view name);
Value apply_filter(const Filter& filter, const Value& value, const Arguments& arguments, Runtime& runtime);

// The filters, by what they work on: jinja_text_filters.cpp ...
namespace filters {
Value capitalize(const FilterInput& input);
Value indent(const FilterInput& input);
Value lower(const FilterInput& input);
Value replace(const FilterInput& input);
Value title(const FilterInput& input);
Value trim(const FilterInput& input);
Value upper(const FilterInput& input);
// ... and jinja_sequence_filters.cpp.
Value first(const FilterInput& input);
Value join(const FilterInput& input);
Value last(const FilterInput& input);
Value map(const FilterInput& input);
Value reject(const FilterInput& input);
Value rejectattr(const FilterInput& input);
Value reverse(const FilterInput& input);
Value select(const FilterInput& input);
Value selectattr(const FilterInput& input);
Value sort(const FilterInput& input);
Value unique(const FilterInput& input);
}  // namespace filters

}  // namespace reprofuse::text::jinja
