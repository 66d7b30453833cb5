#include "study/probe/golden.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.hpp"

namespace reprofuse::study {
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
