#include "study/probe/models.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>

#include "base/check.hpp"
#include "study/golden_files.hpp"

namespace reprofuse::study {

ModelGolden parse_model_golden(std::string_view json, std::string_view contract) {
  const auto root = nlohmann::json::parse(json.empty() ? golden_file("models") : json, nullptr, false);
  require(root.is_object(), "the golden digests of models are not a JSON object");
  require(root.contains(contract), "there are no golden digests of models for {}", contract);
  const auto& digests = root[std::string(contract)];
  require(digests.is_object(), "the golden digests of models for {} are not an object", contract);
  ModelGolden golden;
  for (const auto& [name, digest] : digests.items()) {
    require(digest.is_string(), "the golden digest of model {} is not a string", name);
    golden[name] = digest.get<std::string>();
  }
  return golden;
}

std::vector<PassPlan> probe_plans(bool quick) {
  if (quick) return {{.chunk = 512}, {.chunk = 65, .page_size = 16, .companions = 1}};
  return {{.chunk = 512},
          {.chunk = 1},
          {.chunk = 7, .page_size = 16},
          {.chunk = 64, .page_size = 256},
          {.chunk = 65, .page_size = 32, .companions = 2},
          {.chunk = 5, .companions = 32}};
}

std::string to_string(const PassPlan& plan) {
  return fmt::format("{} tokens per pass, pages of {}, {} other texts", plan.chunk, plan.page_size, plan.companions);
}

ModelProbeResult probe_model(const Context& context, const ModelCase& spec, const ModelGolden& golden,
                             const std::vector<PassPlan>& plans) {
  const auto start = std::chrono::steady_clock::now();
  const auto model = make_model(context, spec);
  ModelProbeResult result;
  result.name = spec.name;
  result.digest = logits_digest(*model, spec, plans.front());
  const auto committed = golden.find(spec.name);
  result.golden = committed != golden.end() && committed->second == result.digest;
  for (const PassPlan& plan : std::span(plans).subspan(1))
    if (result.difference.empty() && logits_digest(*model, spec, plan) != result.digest)
      result.difference = to_string(plan);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace reprofuse::study
