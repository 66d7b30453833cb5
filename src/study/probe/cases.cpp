#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::study {
namespace {

constexpr std::size_t kKinds = 7;
constexpr std::uint64_t kSeedStep = 16;  // room for a case's own streams between two cases

}  // namespace

std::vector<ProbeCase> all_probe_cases() {
  constexpr DType kBF16 = DType::kBF16;
  std::vector<ProbeCase> cases = {
      {"decode-bf16", 32, 2048, 3072, kBF16, false, 0},
      {"decode-f16", 32, 2048, 3072, DType::kF16, false, 0},
      {"decode-f32", 32, 2048, 3072, DType::kF32, false, 0},
      {"prefill-bf16", 256, 1024, 2560, kBF16, false, 0},
      {"prefill-f16", 256, 1024, 2560, DType::kF16, false, 0},
      {"prefill-f32", 256, 1024, 2560, DType::kF32, false, 0},
      {"ragged-bf16", 7, 333, 1537, kBF16, true, 0},
      {"decode-qkv-8b", 32, 6144, 4096, kBF16, false, 0},
      {"decode-down-8b", 32, 4096, 14336, kBF16, false, 0},
      {"decode-qkv-qwen3-4b", 32, 6144, 2560, kBF16, false, 0},
      {"decode-down-qwen3-4b", 32, 2560, 9728, kBF16, false, 0},
      {"decode-output", 32, 4096, 4096, kBF16, false, 0},
      {"decode-lm-head-3b", 32, 128256, 3072, kBF16, false, 0},
      {"prefill-qkv-8b", 2048, 6144, 4096, kBF16, false, 0},
      {"prefill-down-8b", 2048, 4096, 14336, kBF16, false, 0},
      {"ragged-probe", 100, 1000, 1000, kBF16, false, 0},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].seed = (i + 1) * kSeedStep;
  return cases;
}

std::vector<ProbeCase> quick_probe_cases() {
  auto cases = all_probe_cases();
  cases.resize(kKinds);
  return cases;
}

std::vector<ProbeCase> select_cases(std::span<const ProbeCase> cases, std::span<const std::string> patterns) {
  const auto matches = [](const std::string& pattern, const ProbeCase& spec) {
    return fnmatch(pattern.c_str(), spec.name.c_str(), 0) == 0;
  };
  for (const std::string& pattern : patterns)
    require(std::any_of(cases.begin(), cases.end(), [&](const ProbeCase& spec) { return matches(pattern, spec); }),
            "no probe case matches '{}'", pattern);
  std::vector<ProbeCase> selected;
  for (const ProbeCase& spec : cases)
    if (std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p, spec); }))
      selected.push_back(spec);
  return selected;
}

Operands make_operands(const ProbeCase& spec, ThreadPool& pool) {
  return {.x = make_activations(spec.seed, spec.m, spec.k),
          .weight = make_weights(spec.seed + 1, spec.weights, spec.n, spec.k, pool),
          .b = spec.bias ? make_activations(spec.seed + 2, 1, spec.n) : std::vector<float>{}};
}

namespace {

using Json = nlohmann::ordered_json;

DType parse_dtype(const std::string& name) {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    if (dtype_name(dtype) == name) return dtype;
  fail(ErrorCode::kInvalidArgument, "weights '{}' is none of bf16, f16, f32", name);
}

GoldenCase parse_case(const Json& json) {
  return {.spec = {.name = json.at("name"),
                   .m = json.at("m"),
                   .n = json.at("n"),
                   .k = json.at("k"),
                   .weights = parse_dtype(json.at("weights")),
                   .bias = json.at("bias"),
                   .seed = json.at("seed")},
          .sha256 = json.at("sha256")};
}

}  // namespace

const GoldenCase* Golden::find(std::string_view name) const {
  const auto at = std::find_if(cases.begin(), cases.end(), [&](const GoldenCase& c) { return c.spec.name == name; });
  return at == cases.end() ? nullptr : &*at;
}

Golden parse_golden(std::string_view json, std::string_view origin) {
  try {
    const Json root = Json::parse(json);
    Golden golden{.contract = root.at("contract"), .cases = {}};
    for (const Json& entry : root.at("cases")) golden.cases.push_back(parse_case(entry));
    return golden;
  } catch (const std::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: {}", origin, error.what());
  }
}

Golden read_golden(const std::string& path) {
  std::ifstream file(path);
  require(file.is_open(), "{}: cannot be opened", path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_golden(text.str(), path);
}

std::string to_json(const Golden& golden) {
  std::string text = fmt::format("{{\"contract\": {},\n \"cases\": [", Json(golden.contract).dump());
  for (std::size_t i = 0; i < golden.cases.size(); ++i) {
    const ProbeCase& spec = golden.cases[i].spec;
    const Json line = {{"name", spec.name},
                       {"m", spec.m},
                       {"n", spec.n},
                       {"k", spec.k},
                       {"weights", dtype_name(spec.weights)},
                       {"bias", spec.bias},
                       {"seed", spec.seed},
                       {"sha256", golden.cases[i].sha256}};
    text += fmt::format("{}\n  {}", i == 0 ? "" : ",", line.dump());
  }
  return text + "\n]}\n";
}

void require_new_file(const std::string& path) {
  require(!std::filesystem::exists(path), "{}: exists, and golden digests never change; name a new file", path);
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  require(access(folder.c_str(), W_OK) == 0, "{}: cannot be written; {} is no folder that takes files", path,
          folder.string());
}

void write_golden(const std::string& path, const Golden& golden) {
  require_new_file(path);
  std::ofstream file(path);
  file << to_json(golden);
  file.close();
  require(file.good(), "{}: cannot be written", path);
}

}  // namespace reprofuse::study
