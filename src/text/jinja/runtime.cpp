#include "text/jinja/runtime.hpp"

#include <algorithm>

namespace reprofuse::text::jinja {

Parameters::Parameters(std::string_view user, const Arguments& given, std::initializer_list<std::string_view> names,
                       std::size_t required)
    : user_(user), values_(names.size(), nullptr) {
  if (given.positional.size() > names.size()) {
    template_error("{}: takes at most {} arguments, not {}", user, names.size(), given.positional.size());
  }
  for (std::size_t i = 0; i < given.positional.size(); ++i) values_[i] = &given.positional[i];
  for (const auto& [name, value] : given.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) template_error("{}: argument '{}' is not supported", user, name);
    const Value*& slot = values_[static_cast<std::size_t>(found - names.begin())];
    if (slot != nullptr) template_error("{}: argument '{}' is given twice", user, name);
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) template_error("{}: argument '{}' is missing", user, names.begin()[i]);
  }
}

std::string_view Parameters::string_or(std::size_t i, std::string_view otherwise) const {
  return has(i) && !values_[i]->is_none() ? std::string_view(require_string(*values_[i], user_)) : otherwise;
}

std::int64_t Parameters::integer_or(std::size_t i, std::int64_t otherwise) const {
  return has(i) && !values_[i]->is_none() ? require_integer(*values_[i], user_) : otherwise;
}

bool Parameters::truth_or(std::size_t i, bool otherwise) const {
  return has(i) && !values_[i]->is_none() ? values_[i]->truthy() : otherwise;
}

}  // namespace reprofuse::text::jinja
