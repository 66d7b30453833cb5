// The digest that every way to compute a model case must give.
#pragma once

#include <string>

#include "ops/contract.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::study {

// The committed one. A draft has none: there it is what scalar kernels give in one pass, which
// model_reference_test.cpp compares with the reference loops.
inline std::string expected_digest(const Numerics& contract, const ModelCase& spec) {
  if (!contract.draft) return parse_model_golden({}, contract.name).at(spec.name);
  return logits_digest(*make_model(Context::cpu(contract.name, Isa::kScalar, 2), spec), spec, {});
}

}  // namespace reprofuse::study
