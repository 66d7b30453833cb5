// The probe's second part: whole models with seeded weights, their digests, and that no way of computing moves a bit.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/context.hpp"
#include "study/seeded/model_cases.hpp"

namespace reprofuse::study {

// Digests by name of the case.
using ModelGolden = std::map<std::string, std::string, std::less<>>;

// Of one contract, from golden/models.json; empty text: the digests built in. Throws kInvalidArgument where the text is
// not such a file.
ModelGolden parse_model_golden(std::string_view json, std::string_view contract);

struct ModelProbeResult {
  std::string name;
  std::string digest;
  bool golden = false;     // equals the committed digest
  std::string difference;  // the first way of computing that gave other bits; empty: none did
  double seconds = 0.0;

  bool passed() const { return golden && difference.empty(); }
};

// The ways in which the probe computes each text: in one pass, token by token, in chunks, on small pages, beside
// others.
std::vector<PassPlan> probe_plans(bool quick);
std::string to_string(const PassPlan& plan);

// The digest of the first plan, compared with `golden` and with the digests of the other plans.
ModelProbeResult probe_model(const Context& context, const ModelCase& spec, const ModelGolden& golden,
                             const std::vector<PassPlan>& plans);

}  // namespace reprofuse::study
