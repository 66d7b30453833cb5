#include "cli/device_options.hpp"

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/option_values.hpp"
#include "cli/usage.hpp"
#include "engine/model_files.hpp"
#include "kernels/backend.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse::cli {

CLI::Validator is_device() {
  const auto check = [](const std::string& text) -> std::string {
    try {
      parse_device(text);
    } catch (const Error&) {
      return fmt::format("'{}' is not one of {}", text, device_names());
    }
    return {};
  };
  return CLI::Validator(check, "");
}

std::string default_numerics_names() {
  std::string names;
  for (const kernels::BackendRow& row : kernels::backends())
    names += fmt::format("{}{} on {}", names.empty() ? "" : ", ", default_numerics(row.name), row.name);
  return names;
}

bool takes_threads(const std::string& device) {
  return parse_device(device).backend->takes_threads;
}

void add_device_options(CLI::App& command, DeviceArguments& arguments) {
  command.add_option("--numerics", arguments.numerics, "How to compute; `reprofuse info` says what the names mean")
      ->check(one_of(numerics_names()))
      ->type_name("NAME")
      ->default_str(default_numerics_names());
  add_device_only_options(command, arguments.device, arguments.isa, arguments.threads);
}

void add_device_only_options(CLI::App& command, std::string& device, std::string& isa, int& threads) {
  command.add_option("--device", device, fmt::format("Where to compute: {}", device_names()))
      ->check(is_device())
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--isa", isa, "CPU kernels to force (default: the best this machine runs)")
      ->check(one_of({"scalar", "avx2", "avx512", "neon"}));
  command.add_option("--threads", threads, "CPU threads; 0 takes every core")
      ->type_name("N")
      ->check(whole_number(0, kMaxThreads))
      ->capture_default_str();
}

void add_model_option(CLI::App& command, std::optional<std::string>& folder) {
  command.add_option("--model", folder, "Checkpoint folder (default: the bundled model)")->type_name("DIR");
}

std::string model_folder(const std::optional<std::string>& folder) {
  if (folder) return *folder;
  try {
    return engine::bundled_model_folder();
  } catch (const Error& error) {
    fail(error.code(), "{}; name a model folder with --model", error.what());
  }
}

std::string model_digest_of(const engine::ModelFiles& files) {
  ThreadPool pool(available_cores());
  return checkpoint::model_digest(files.checkpoint(), pool);
}

void add_as_option(CLI::App& command, std::string& architecture) {
  command.add_option("--as", architecture, "Run what an older GPU would: sm_80 (A100), sm_86 or sm_89 (L40S, RTX 40)")
      ->check(one_of({"sm_80", "sm_86", "sm_89"}))
      ->type_name("NAME");
}

void act_as(const std::string& architecture, const std::string& device) {
  if (architecture.empty()) return;
  const kernels::BackendRow& backend = *parse_device(device).backend;
  check_usage(backend.act_as != nullptr, fmt::format("--as goes with a GPU, not with --device {}", device));
  backend.act_as(architecture);
}

Context make_context(const DeviceArguments& arguments, const std::shared_ptr<model::Team>& team) {
  check_usage(takes_threads(arguments.device) || (arguments.isa.empty() && arguments.threads == 0),
              fmt::format("--isa and --threads go with --device cpu, not {}", arguments.device));
  const bool takes_its_share = team && arguments.threads == 0 && takes_threads(arguments.device);
  return Context::open(arguments.device, arguments.chosen_numerics(), parse_isa(arguments.isa),
                       takes_its_share ? team->communicator().cores() : arguments.threads);
}

}  // namespace reprofuse::cli
