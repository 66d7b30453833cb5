// Several lambdas as one function object, for std::visit.
#pragma once

namespace reprofuse {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // clang 14 does not find it by itself

}  // namespace reprofuse
