#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/terminal.hpp"
#include "engine/model_files.hpp"
#include "kernels/backend.hpp"
#include "ops/contract.hpp"
#include "reprofuse/context.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::cli {
namespace {

void print_devices() {
  for (const Device& device : devices())
    fmt::print("  {:<12} {}\n", device.name, device.problem.empty() ? device.description : device.problem);
  for (const kernels::BackendRow& row : kernels::backends()) {
    if (row.count() > 0) continue;
    try {
      Context::open(row.name);
    } catch (const Error& error) {
      fmt::print("  {:<12} none: {}\n", row.name, error.what());
    }
  }
}

void print_machine() {
  fmt::print("ReproFuse {}\n\nContracts, which pin every bit\n", kVersion);
  for (const Numerics& contract : contracts()) fmt::print("  {:<12} {}\n", contract.name, contract.summary);
  fmt::print("\nBaselines, which pin none\n");
  for (const Numerics& baseline : baselines()) fmt::print("  {:<12} {}\n", baseline.name, baseline.summary);
  fmt::print("\nDefault --numerics\n");
  for (const kernels::BackendRow& device : kernels::backends())
    fmt::print("  {:<12} {}\n", device.name, default_numerics(device.name));
  fmt::print("\nCPU kernels this machine runs\n");
  const Isa best = Context::cpu().isa();
  for (const Isa isa : supported_isas()) fmt::print("  {}{}\n", isa_name(isa), isa == best ? " (default)" : "");
  fmt::print("\nDevices\n");
  print_devices();
}

std::string describe_dtypes(const checkpoint::Checkpoint& checkpoint) {
  std::map<std::string_view, int> tensors;
  for (const checkpoint::ExpectedTensor& tensor : checkpoint.tensors())
    ++tensors[dtype_name(checkpoint.tensor(tensor.name).dtype)];
  std::string list;
  for (const auto& [name, count] : tensors)
    list += fmt::format("{}{} ({} tensors)", list.empty() ? "" : ", ", name, count);
  return list;
}

std::string window_of(const checkpoint::ModelConfig& config) {
  const auto widest = *std::max_element(config.layer_windows.begin(), config.layer_windows.end());
  return widest == 0 ? "" : fmt::format(", window of {}", widest);
}

std::string_view rotary_name(RotaryKind kind) {
  switch (kind) {
    case RotaryKind::kPlain: return "";
    case RotaryKind::kLinear: return ", linear scaling";
    case RotaryKind::kLlama3: return ", Llama 3 scaling";
    case RotaryKind::kYarn: return ", YaRN";
  }
  return "";
}

std::string describe_unicode(const std::string& versions) {  // two of them, or "none"
  const std::size_t space = versions.find(' ');
  if (space == std::string::npos) return versions;
  return fmt::format("{} in patterns, {} in normalization", versions.substr(0, space), versions.substr(space + 1));
}

void print_model(const std::string& folder) {
  const engine::ModelFiles files(folder);
  const checkpoint::Checkpoint& checkpoint = files.checkpoint();
  const checkpoint::ModelConfig& config = checkpoint.config();
  const auto line = [](std::string_view what, const std::string& value) { fmt::print("  {:<12} {}\n", what, value); };
  fmt::print("\nModel {}\n", folder);
  line("architecture", std::string(checkpoint::architecture_name(config.architecture)));
  line("parameters", fmt::format("{:.1f} million, {:.1f} MB", static_cast<double>(parameter_count(config)) / 1e6,
                                 static_cast<double>(checkpoint.tensor_bytes()) / 1e6));
  line("weights", describe_dtypes(checkpoint));
  line("layers",
       fmt::format("{} of width {}, feed-forward {}", config.layers, config.hidden_size, config.intermediate_size));
  line("attention", fmt::format("{} heads of {} over {} key-value heads{}", config.heads, config.head_dim,
                                config.kv_heads, window_of(config)));
  line("vocabulary", fmt::format("{}{}", config.vocab_size, config.tied_embeddings ? ", tied head" : ""));
  line("context", fmt::format("{} tokens, rotary theta {}{}", config.max_positions, config.rotary.theta,
                              rotary_name(config.rotary.kind)));
  const checkpoint::EosTokens stops = checkpoint.eos_tokens();
  line("stops at", stops.ids.empty() ? "no token" : fmt::format("{} ({})", fmt::join(stops.ids, ", "), stops.file));
  const SamplingParams sampling = files.suggested_sampling();
  line("sampling", sampling.temperature == 0 ? "greedy"
                                             : fmt::format("temperature {}, top-k {}, top-p {}", sampling.temperature,
                                                           sampling.top_k, sampling.top_p));
  const engine::TextFormat& text = files.text();
  line("tokenizer", text.has_tokenizer() ? fmt::format("{} tokens", text.tokenizer().vocab_size())
                                         : fmt::format("none: {}", text.why_no_tokenizer()));
  line("Unicode", describe_unicode(text::unicode_versions()));
  line("chat", text.has_chat_template() ? "has a template" : fmt::format("none: {}", text.why_no_chat_template()));
  const Terminal terminal;
  ThreadPool pool(available_cores());
  const std::string digest = checkpoint::model_digest(checkpoint, pool, [&](std::int64_t done, std::int64_t total) {
    terminal.progress(fmt::format("hashing {} of {} MB ...", done / 1'000'000, total / 1'000'000));
  });
  terminal.clear_progress();
  line("digest", digest);
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto model = std::make_shared<std::optional<std::string>>();
  CLI::App* command = app.add_subcommand("info", "Show contracts, baselines, CPU kernels, devices and a model's card");
  add_model_option(*command, *model);
  command->callback([model] {
    print_machine();
    print_model(model_folder(*model));
  });
}

}  // namespace reprofuse::cli
