#include "study/bench_linear.hpp"

#include <algorithm>
#include <charconv>

#include "base/check.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kHeadRows = 64;  // the largest decode batch that projects to a vocabulary here

// Hidden size, query and key-value widths, MLP width and vocabulary, from the models' published configurations.
struct Model {
  std::string_view name;
  std::int64_t hidden, queries, key_values, mlp, vocabulary;
};
constexpr Model kModels[] = {
    {"llama-3.2-3b", 3072, 3072, 1024, 8192, 128256},
    {"qwen3-4b", 2560, 4096, 1024, 9728, 151936},
    {"llama-8b", 4096, 4096, 1024, 14336, 128256},
    {"qwen3-14b", 5120, 5120, 1024, 17408, 151936},
};

std::vector<BenchShape> projections(const Model& model) {
  return {{"qkv", model.queries + 2 * model.key_values, model.hidden},
          {"o", model.hidden, model.queries},
          {"gate_up", 2 * model.mlp, model.hidden},
          {"down", model.hidden, model.mlp},
          {"lm_head", model.vocabulary, model.hidden, kHeadRows}};
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

std::optional<BenchShape> parse_shape(std::string_view text) {
  const auto cross = text.find('x');
  if (cross == std::string_view::npos) return std::nullopt;
  const auto n = parse_size(text.substr(0, cross));
  const auto k = parse_size(text.substr(cross + 1));
  if (!n || !k) return std::nullopt;
  return BenchShape{std::string(text), *n, *k};
}

}  // namespace

std::vector<std::string_view> bench_models() {
  std::vector<std::string_view> names;
  for (const Model& model : kModels) names.push_back(model.name);
  return names;
}

std::vector<BenchShape> parse_bench_shapes(std::string_view text) {
  std::vector<BenchShape> shapes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const auto* model =
        std::find_if(std::begin(kModels), std::end(kModels), [&](const Model& m) { return m.name == item; });
    const auto shape = parse_shape(item);
    require(model != std::end(kModels) || shape, "shapes '{}': '{}' is neither NxK nor one of the models {}", text,
            item, fmt::join(bench_models(), ", "));
    if (shape)
      shapes.push_back(*shape);
    else
      for (BenchShape& projection : projections(*model)) shapes.push_back(std::move(projection));
    begin = end + 1;
  }
  return shapes;
}

Times summarise(std::vector<double> seconds) {
  invariant(!seconds.empty(), "nothing was timed");
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds[seconds.size() * 9 / 10]};
}

double BenchRow::weight_bytes() const {
  return static_cast<double>(shape.n) * static_cast<double>(shape.k) * static_cast<double>(dtype_bytes(weights));
}

double BenchRow::gigabytes_per_second() const {
  return weight_bytes() / linear.median * 1e-9;
}

double BenchRow::gigaflops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) / linear.median *
         1e-9;
}

double BenchRow::read_fraction() const {
  return gigabytes_per_second() / (static_cast<double>(read.bytes) / read.times.median * 1e-9);
}

std::optional<double> BenchRow::bf16_ratio() const {
  if (!bf16) return std::nullopt;
  return bf16->median / linear.median;
}

std::optional<double> BenchRow::sgemm_ratio() const {
  if (!sgemm) return std::nullopt;
  return sgemm->median / linear.median;
}

}  // namespace reprofuse::study
