#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "checkpoint/safetensors.hpp"
#include "study/trace/trace.hpp"

namespace reprofuse::study {
namespace {

constexpr const char* kFormat = "reprofuse-trace-1";
constexpr const char* kMetadataKey = "trace";
constexpr std::int64_t kMaxPosition = std::int64_t{1} << 31;

std::string tensor_name(const TracedStep& step, const TracedResult& result) {
  return fmt::format("{}/{}", step.position, result.op);
}

nlohmann::ordered_json to_json(const TracedStep& step) {
  nlohmann::ordered_json json = {{"position", step.position}};
  for (const Candidate& candidate : step.likeliest)
    json["likeliest"].push_back(
        {{"token", candidate.token}, {"logit", fmt::format("{:08x}", std::bit_cast<std::uint32_t>(candidate.logit))}});
  for (const TracedResult& result : step.results)
    json["results"].push_back({{"op", result.op},
                               {"dtype", checkpoint::stored_type(result.dtype).name},
                               {"elements", result.elements},
                               {"sha256", result.sha256}});
  return json;
}

// Reads JSON that anyone may have written. Whatever is not as it should be is named.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  Trace read(std::string_view text) const {
    const nlohmann::json json = parsed(text);
    check(json.is_object() && json.value("format", "") == kFormat, "format", "'{}'", kFormat);
    Trace trace{.version = string(json, "version"),
                .numerics = string(json, "numerics"),
                .device = string(json, "device"),
                .model_digest = string(json, "model_digest"),
                .chunk = number(json, "chunk", 1, kMaxPosition)};
    for (const nlohmann::json& token : array(json, "tokens")) {
      check(token.is_number_unsigned() && token.get<std::uint64_t>() <= INT32_MAX, "tokens", "token ids");
      trace.tokens.push_back(token.get<std::int32_t>());
    }
    trace.prompt_tokens = number(json, "prompt_tokens", 1, static_cast<std::int64_t>(trace.tokens.size()));
    for (const nlohmann::json& entry : array(json, "steps")) {
      check(entry.is_object(), "steps", "objects");
      trace.steps.push_back(step(entry, static_cast<std::int64_t>(trace.tokens.size())));
      check(trace.steps.size() < 2 || trace.steps.end()[-2].position < trace.steps.back().position, "position",
            "in ascending order");
    }
    return trace;
  }

  template <typename... Args>
  void check(bool condition, const char* key, fmt::format_string<Args...> what, Args&&... args) const {
    require(condition, "{}: is no trace: {} is not {}", file_, key, fmt::format(what, std::forward<Args>(args)...));
  }

 private:
  nlohmann::json parsed(std::string_view text) const {
    try {
      return parse_json(text, file_, {.depth = 8});
    } catch (const nlohmann::json::exception&) {
      fail(ErrorCode::kInvalidArgument, "{}: is no trace: its metadata is not JSON", file_);
    }
  }

  TracedStep step(const nlohmann::json& json, std::int64_t length) const {
    TracedStep step{.position = number(json, "position", 0, length - 1)};
    const auto& likeliest = array(json, "likeliest");
    check(likeliest.size() == step.likeliest.size(), "likeliest", "two tokens");
    for (std::size_t i = 0; i < likeliest.size(); ++i) {
      check(likeliest[i].is_object(), "likeliest", "objects");
      step.likeliest[i] = {static_cast<std::int32_t>(number(likeliest[i], "token", 0, INT32_MAX)),
                           std::bit_cast<float>(static_cast<std::uint32_t>(
                               std::stoul(hex(likeliest[i], "logit", 2 * sizeof(float)), nullptr, 16)))};
    }
    std::set<std::string> names;
    for (const nlohmann::json& entry : array(json, "results")) {
      check(entry.is_object(), "results", "objects");
      const checkpoint::StoredType* type = checkpoint::find_stored_type(string(entry, "dtype"));
      check(type != nullptr && type->dtype, "dtype", "F32, BF16 or F16");
      step.results.push_back({.op = string(entry, "op"),
                              .dtype = *type->dtype,
                              .elements = number(entry, "elements", 1, kMaxPosition),
                              .sha256 = hex(entry, "sha256", 2 * sizeof(Sha256::Digest)),
                              .values = {}});
      check(names.insert(step.results.back().op).second, "op", "a name of its own: {}", step.results.back().op);
    }
    return step;
  }

  std::string string(const nlohmann::json& json, const char* key) const {
    const auto found = json.find(key);
    check(found != json.end() && found->is_string(), key, "a string");
    return found->get<std::string>();
  }

  std::string hex(const nlohmann::json& json, const char* key, std::size_t digits) const {
    std::string text = string(json, key);
    check(text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos, key,
          "{} hexadecimal digits", digits);
    return text;
  }

  std::int64_t number(const nlohmann::json& json, const char* key, std::int64_t min, std::int64_t max) const {
    const auto found = json.find(key);
    check(found != json.end() && found->is_number_integer() && *found >= min && *found <= max, key,
          "a whole number from {} to {}", min, max);
    return found->get<std::int64_t>();
  }

  const nlohmann::json& array(const nlohmann::json& json, const char* key) const {
    const auto found = json.find(key);
    check(found != json.end() && found->is_array(), key, "a list");
    return *found;
  }

  std::string file_;
};

}  // namespace

std::string trace_to_json(const Trace& trace) {
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"version", trace.version},
                                 {"numerics", trace.numerics},
                                 {"device", trace.device},
                                 {"model_digest", trace.model_digest},
                                 {"chunk", trace.chunk},
                                 {"prompt_tokens", trace.prompt_tokens},
                                 {"tokens", trace.tokens},
                                 {"steps", nlohmann::ordered_json::array()}};
  for (const TracedStep& step : trace.steps) json["steps"].push_back(to_json(step));
  return json.dump();
}

void write_trace(const std::string& path, const Trace& trace) {
  std::vector<checkpoint::TensorToWrite> tensors;
  for (const TracedStep& step : trace.steps)
    for (const TracedResult& result : step.results)
      if (!result.values.empty())
        tensors.push_back({.name = tensor_name(step, result),
                           .dtype = result.dtype,
                           .shape = {result.elements},
                           .make_bytes = [&result] { return result.values; }});
  checkpoint::write_safetensors(path, tensors, {{kMetadataKey, trace_to_json(trace)}});
}

Trace read_trace(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  const checkpoint::Safetensors file(path, name);
  const Reader reader(name);
  const auto metadata = file.header().metadata.find(kMetadataKey);
  reader.check(metadata != file.header().metadata.end(), "its metadata", "that of one");
  Trace trace = reader.read(metadata->second);
  std::size_t found = 0;
  for (TracedStep& step : trace.steps)
    for (TracedResult& result : step.results) {
      const checkpoint::TensorEntry* entry = file.find(tensor_name(step, result));
      if (entry == nullptr) continue;
      const checkpoint::TensorView view = file.read(*entry);
      reader.check(view.dtype == result.dtype && view.elements() == result.elements, entry->name.c_str(),
                   "what the metadata says it is");
      result.values.assign(view.bytes.begin(), view.bytes.end());
      Sha256 hash;
      hash.update(result.values.data(), result.values.size());
      reader.check(to_hex(hash.finish()) == result.sha256, entry->name.c_str(), "what its digest says");
      ++found;
    }
  reader.check(found == file.header().tensors.size(), "a tensor", "one of its results");
  return trace;
}

}  // namespace reprofuse::study
