#include "study/probe/probe.hpp"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kN = 80;
// Three segments of fma-1, the last one short: rows of 16-bit weights that 16-byte loads can read, and rows they
// cannot.
constexpr std::int64_t kK[] = {1104, 1100};
constexpr std::uint64_t kRowsSeed = 0x10000;

}  // namespace

std::vector<std::int64_t> batch_sizes(std::int64_t max) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t m = 1; m <= 9; ++m) sizes.push_back(m);
  for (std::int64_t power = 16; power - 1 <= max; power *= 2)
    for (std::int64_t m = power - 1; m <= power + 1; ++m) sizes.push_back(m);
  std::erase_if(sizes, [&](std::int64_t m) { return m > max; });
  return sizes;
}

std::string RowDifference::description() const {
  return fmt::format(
      "{} weights, K = {}, M = {}: row {} column {} is {:#010x}, but {:#010x} when the row is computed alone",
      dtype_name(weights), k, m, row, column, in_batch, alone);
}

std::optional<RowDifference> find_row_difference(HostLinear& layer, DType weights, std::int64_t n, ConstMatrix x,
                                                 std::span<const std::int64_t> sizes) {
  const auto values = static_cast<std::size_t>(x.rows * n);
  std::vector<float> alone(values);  // [x.rows, n]
  for (std::int64_t row = 0; row < x.rows; ++row)
    layer.run({x.data + row * x.stride, 1, x.cols, x.stride}, nullptr, {alone.data() + row * n, 1, n, n});
  std::vector<float> together(values);
  for (const std::int64_t m : sizes) {
    require(m <= x.rows, "a batch of {} rows was asked of {} rows", m, x.rows);
    std::fill(together.begin(), together.end(), 0.0F);
    layer.run({x.data, m, x.cols, x.stride}, nullptr, {together.data(), m, n, n});
    if (const auto found = first_difference({together.data(), m, n, n}, {alone.data(), m, n, n}))
      return RowDifference{weights, x.cols, m, found->row, found->column, found->expected, found->got};
  }
  return std::nullopt;
}

std::optional<RowDifference> probe_rows(const PrepareLinear& prepare, std::int64_t max_batch, ThreadPool& pool,
                                        const std::function<void(DType)>& on_start) {
  for (const DType weights : {DType::kBF16, DType::kF16, DType::kF32}) {
    if (on_start) on_start(weights);
    for (const std::int64_t k : kK) {
      const std::vector<float> x = make_activations(kRowsSeed, max_batch, k);
      const Weights weight = make_weights(kRowsSeed + 1, weights, kN, k, pool);
      const auto layer = prepare(weight.view(), max_batch);
      if (auto found = find_row_difference(*layer, weights, kN, {x.data(), max_batch, k, k}, batch_sizes(max_batch)))
        return found;
    }
  }
  return std::nullopt;
}

namespace {

GoldenVerdict judge(const GoldenCase* golden, const ProbeCase& spec, const std::string& sha256) {
  if (golden == nullptr) return GoldenVerdict::kMissing;
  if (!(golden->spec == spec)) return GoldenVerdict::kOtherOperands;
  return golden->sha256 == sha256 ? GoldenVerdict::kMatches : GoldenVerdict::kDiffers;
}

std::string compare_with_reference(const Numerics& contract, const Operands& operands, ConstMatrix got,
                                   ThreadPool& pool) {
  std::vector<float> expected(static_cast<std::size_t>(got.rows * got.cols));  // [m, n]
  const auto reference = reference_of(contract, pool)(operands.weight.view(), got.rows);
  reference->run(operands.x_view(got.rows), operands.bias(), {expected.data(), got.rows, got.cols, got.cols});
  const auto found = first_difference(got, {expected.data(), got.rows, got.cols, got.cols});
  return found ? "against the reference, " + found->description()
               : "the reference gives the same bits, so it is the golden digest that is wrong";
}

std::string explain_verdict(GoldenVerdict verdict, const GoldenCase* golden, const std::string& sha256) {
  switch (verdict) {
    case GoldenVerdict::kMatches: return "";
    case GoldenVerdict::kMissing: return "there is no golden digest for it";
    case GoldenVerdict::kOtherOperands: return "the golden digest is for another shape, weight type, bias or seed";
    case GoldenVerdict::kDiffers: return fmt::format("digest {}, golden {}", sha256, golden->sha256);
  }
  return "";
}

}  // namespace

CaseResult probe_case(const Numerics& contract, const Golden& golden, const PrepareLinear& prepare,
                      const ProbeCase& spec, bool explain, ThreadPool& pool) {
  const auto start = std::chrono::steady_clock::now();
  const Operands operands = make_operands(spec, pool);
  std::vector<float> y(static_cast<std::size_t>(spec.m * spec.n));  // [m, n]
  const auto layer = prepare(operands.weight.view(), spec.m);
  layer->run(operands.x_view(spec.m), operands.bias(), {y.data(), spec.m, spec.n, spec.n});
  const ConstMatrix got{y.data(), spec.m, spec.n, spec.n};
  CaseResult result{.spec = spec,
                    .sha256 = sha256_hex(got),
                    .implementation = layer->implementation(),
                    .verdict = GoldenVerdict::kMissing,
                    .explanation = {},
                    .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
  const GoldenCase* known = golden.find(spec.name);
  result.verdict = judge(known, spec, result.sha256);
  result.explanation = explain_verdict(result.verdict, known, result.sha256);
  if (explain && result.verdict == GoldenVerdict::kDiffers && spec.multiply_adds() <= kReferenceLimit)
    result.explanation += "; " + compare_with_reference(contract, operands, got, pool);
  return result;
}

ProbeReport run_probe(const Numerics& contract, const Golden& golden, const PrepareLinear& prepare,
                      const ProbeOptions& options, ThreadPool& pool, const ProbeObserver& observer) {
  require(golden.contract == contract.linear->name, "the golden digests are of contract '{}', the probe runs '{}'",
          golden.contract, contract.linear->name);
  const std::size_t steps = options.cases.size() + 3;  // and row invariance in three weight types
  std::size_t step = 0;
  const auto start = [&](const std::string& name) {
    ++step;
    if (observer.on_start) observer.on_start(step, steps, name);
  };
  ProbeReport report;
  bool explain = options.explain;
  for (const ProbeCase& spec : options.cases) {
    start(spec.name);
    report.cases.push_back(probe_case(contract, golden, prepare, spec, explain, pool));
    if (report.cases.back().verdict != GoldenVerdict::kMatches) explain = false;  // the first one is enough
    if (observer.on_result) observer.on_result(report.cases.back());
  }
  report.row_difference = probe_rows(prepare, options.max_batch, pool, [&](DType weights) {
    start(fmt::format("row invariance {}", dtype_name(weights)));
  });
  return report;
}

bool ProbeReport::matches_golden() const {
  return std::all_of(cases.begin(), cases.end(),
                     [](const CaseResult& result) { return result.verdict == GoldenVerdict::kMatches; });
}

std::string ProbeReport::implementation() const {
  invariant(!cases.empty(), "a probe without cases");
  for (const CaseResult& result : cases)
    if (result.implementation != cases[0].implementation)
      fail(ErrorCode::kInternal, "internal error: {} ran on {}, {} on {}", cases[0].spec.name, cases[0].implementation,
           result.spec.name, result.implementation);
  return cases[0].implementation;
}

std::string ProbeReport::first_failure() const {
  for (const CaseResult& result : cases)
    if (result.verdict != GoldenVerdict::kMatches)
      return fmt::format("{} does not match: {}", result.spec.name, result.explanation);
  return row_difference ? "a row depends on its batch: " + row_difference->description() : "";
}

ModelGolden parse_model_golden(std::string_view json, std::string_view contract) {
  const auto root = nlohmann::json::parse(json.empty() ? golden_file("models") : json, nullptr, false);
  require(root.is_object(), "the golden digests of models are not a JSON object");
  ModelGolden golden;
  if (!root.contains(contract)) return golden;
  const auto& digests = root[std::string(contract)];
  require(digests.is_object(), "the golden digests of models for {} are not an object", contract);
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
