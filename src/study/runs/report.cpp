#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/check.hpp"
#include "base/json.hpp"
#include "study/runs/runs.hpp"

namespace reprofuse::study {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxPairs = 6;  // of runs whose curves are drawn one by one

Json or_null(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

Json to_json(const Divergence& divergence) {
  std::optional<double> flip_margin;
  if (!divergence.flip_margins.empty()) flip_margin = quantile(divergence.flip_margins, 0.5);
  return {{"pairs", divergence.pairs},
          {"divergent", divergence.divergent},
          {"other_digests", divergence.other_digests},
          {"div_index", or_null(divergence.mean_first_index())},
          {"positions", divergence.positions},
          {"equal_margins", divergence.equal_margins},
          {"exposed", divergence.exposed},
          {"shift_median", quantile(divergence.shifts, 0.5)},
          {"shift_99", quantile(divergence.shifts, 0.99)},
          {"flip_margin_median", or_null(flip_margin)}};
}

// Four digits are more than a figure shows.
Json to_json(const Curve& curve) {
  Json values = Json::array();
  for (const double value : curve.values) values.push_back(std::stod(fmt::format("{:.4g}", value)));
  return {{"zero", curve.zero}, {"first", curve.first}, {"values", std::move(values)}};
}

Json curves_of(const MethodResult& method) {
  Json pairs = Json::array();
  if (method.pairs.size() > 1 && method.pairs.size() <= kMaxPairs)
    for (const PairOfRuns& pair : method.pairs)
      pairs.push_back({{"a", pair.a}, {"b", pair.b}, {"curve", to_json(cumulative_curve(pair.divergence.shifts))}});
  return {{"margin", to_json(cumulative_curve(method.margins))},
          {"shift", to_json(cumulative_curve(method.compared().shifts))},
          {"pairs", std::move(pairs)}};
}

Json to_json(const ReportGroup& compared) {
  const RunHeader& first = compared.runs.front().header;
  Json group = {{"model", first.model},       {"task", first.task},    {"problems", first.problems.size()},
                {"settings", first.settings}, {"runs", Json::array()}, {"methods", Json::array()}};
  for (const Run& run : compared.runs) group["runs"].push_back(study::to_json(run));
  for (const MethodResult& method : compared.methods) {
    Json json = study::to_json(method);
    json["curves"] = curves_of(method);
    group["methods"].push_back(std::move(json));
  }
  return group;
}

// Whether the value is an object with these keys.
bool has(const nlohmann::json& value, std::initializer_list<const char*> keys) {
  return value.is_object() &&
         std::all_of(keys.begin(), keys.end(), [&](const char* key) { return value.contains(key); });
}

bool all_have(const nlohmann::json& object, const char* list, std::initializer_list<const char*> keys) {
  if (!has(object, {list}) || !object[list].is_array()) return false;
  return std::all_of(object[list].begin(), object[list].end(),
                     [&](const nlohmann::json& value) { return has(value, keys); });
}

bool is_bench(const nlohmann::json& json) {
  if (!all_have(json, "runs", {"contract", "pins_bits", "device", "rows", "forwards"}))
    return has(json, {"model", "device", "baseline"}) &&
           all_have(json, "rows", {"numerics", "pins_bits", "batch", "times_baseline"});
  return std::all_of(json["runs"].begin(), json["runs"].end(), [](const nlohmann::json& run) {
    return all_have(run, "rows", {"gigaflops", "read_bytes", "read"}) && all_have(run, "forwards", {"model", "m"});
  });
}

bool is_memory(const nlohmann::json& json) {
  return has(json, {"budget_bytes", "device"}) &&
         all_have(json, "rows",
                  {"shape", "numerics", "pins_bits", "resident_weight_bytes", "transient_peak_bytes", "kv_tokens"});
}

bool is_ablation(const nlohmann::json& json) {
  return all_have(json, "experiments", {"rule", "title", "machine", "cpu_analogue", "claims", "tables"});
}

// Reads files of one kind. A measurement that was recorded with its date and command has the result under `result`.
Json read_all(const std::vector<std::string>& paths, bool (*is_right)(const nlohmann::json&), const char* kind) {
  Json all = Json::array();
  for (const std::string& path : paths) {
    const std::string name = std::filesystem::path(path).filename().string();
    std::ifstream file(path, std::ios::binary);
    require(file.is_open(), "{}: cannot be read", path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    try {
      parse_json(text, name);  // for what it refuses; the other parse keeps the order of columns
      Json json = Json::parse(text);
      if (json.is_object() && json.contains("result")) json = Json(json["result"]);
      require(is_right(nlohmann::json(json)), "{}: is no result of {}", name, kind);
      all.push_back(std::move(json));
    } catch (const nlohmann::json::exception&) {
      fail(ErrorCode::kInvalidArgument, "{}: is not JSON", name);
    }
  }
  return all;
}

std::string_view body_of(std::string_view name) {
  const std::optional<Asset> asset = report_asset(fmt::format("/{}", name));
  invariant(asset.has_value(), "the page of a report names a file that was not embedded");
  return asset->body;
}

// Puts each file that a tag names into the page: from `before` + its name + `after`.
void put_in(std::string& page, std::string_view before, std::string_view after, std::string_view element) {
  for (std::size_t at = 0; (at = page.find(before, at)) != std::string::npos;) {
    const std::size_t name = at + before.size(), end = page.find(after, name);
    const std::string put = fmt::format("<{0}>\n{1}</{0}>", element, body_of(page.substr(name, end - name)));
    page.replace(at, end + after.size() - at, put);
    at += put.size();
  }
}

}  // namespace

Json to_json(const Run& run) {
  std::set<std::uint64_t> seeds;
  Json fingerprints = Json::object();
  for (const RunCell& cell : run.header.cells) {
    seeds.insert(cell.seed);
    if (!cell.fingerprint.empty()) fingerprints[cell.numerics] = cell.fingerprint;
  }
  return {{"name", run.name},
          {"device", run.header.device},
          {"vendor", run.header.vendor},
          {"machine", run.header.machine},
          {"version", run.header.version},
          {"fingerprints", std::move(fingerprints)},
          {"batch", run.header.batch},
          {"seeds", seeds.size()}};
}

Json to_json(const MethodResult& method) {
  Json json = {{"numerics", method.numerics},
               {"pins_bits", method.pins_bits},
               {"moved", method.moved()},
               {"problems", method.problems},
               {"divergent_problems", method.divergent_problems},
               {"between_runs", to_json(method.between_runs)},
               {"between_seeds", to_json(method.between_seeds)},
               {"margin_median", quantile(method.margins, 0.5)},
               {"margin_1_percent", quantile(method.margins, 0.01)}};
  if (method.tail_slope) json["tail_slope"] = *method.tail_slope;
  if (method.flip_per_token) json["flip_per_token"] = *method.flip_per_token;
  if (method.predicted) json["predicted"] = *method.predicted;
  if (method.measured) json["measured"] = *method.measured;
  for (const PairOfRuns& pair : method.pairs)
    json["pairs"].push_back({{"a", pair.a}, {"b", pair.b}, {"divergence", to_json(pair.divergence)}});
  for (const CellTime& time : method.times)
    json["runs"].push_back({{"run", time.run},
                            {"seconds", time.mean_seconds},
                            {"seconds_deviation", time.deviation},
                            {"tokens_per_second", time.tokens_per_second},
                            {"known_answers", time.accuracy.known},
                            {"right_answers", time.accuracy.right},
                            {"right_low", time.accuracy.low},
                            {"right_high", time.accuracy.high}});
  return json;
}

std::vector<ReportGroup> compare_by_task(std::vector<Run> runs) {
  std::vector<ReportGroup> groups;
  const auto key = [](const Run& run) {
    const auto digest = run.header.settings.find("model digest");
    return std::pair(digest == run.header.settings.end() ? "" : digest->second, run.header.task);
  };
  for (Run& run : runs) {
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const ReportGroup& group) { return key(group.runs.front()) == key(run); });
    if (found == groups.end()) found = groups.insert(found, ReportGroup{});
    for (const Run& other : found->runs)
      require(other.name != run.name, "{}: two runs of {} have this name, by which the report tells them apart",
              run.name, run.header.task);
    found->runs.push_back(std::move(run));
  }
  for (ReportGroup& group : groups) group.methods = compare_runs(group.runs);
  return groups;
}

std::string report_page(std::span<const ReportGroup> groups, const ReportFiles& files, const std::string& version) {
  Json document = {{"version", version},
                   {"groups", Json::array()},
                   {"benches", read_all(files.benches, is_bench, "`bench linear` or `bench engine`")},
                   {"memory", read_all(files.memory, is_memory, "`study memory`")},
                   {"ablations", read_all(files.ablations, is_ablation, "`ablate`")}};
  for (const ReportGroup& group : groups) document["groups"].push_back(to_json(group));
  std::string data;
  for (const char c : document.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<')
      data += "\\u003c";  // so that no text ends the element
    else
      data += c;
  }
  std::string page(body_of("index.html"));
  put_in(page, R"(<link rel="stylesheet" href=")", R"(">)", "style");
  put_in(page, R"(<script src=")", R"("></script>)", "script");
  const std::string_view before = R"(<script type="application/json" id="document">)";
  const std::size_t at = page.find(before);
  invariant(at != std::string::npos, "the page of a report has no place for its document");
  return page.insert(at + before.size(), data);
}

}  // namespace reprofuse::study
