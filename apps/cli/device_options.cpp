#include "cli/device_options.hpp"

#include "base/check.hpp"

namespace reprofuse::cli {
namespace {

std::string list_numerics() {
  std::string list;
  for (const std::string_view name : numerics_names()) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  return list;
}

}  // namespace

void add_device_options(CLI::App& command, DeviceArguments& arguments) {
  command.add_option("--numerics", arguments.numerics, fmt::format("How to compute: {}", list_numerics()))
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--device", arguments.device, "Where to compute")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--isa", arguments.isa, "CPU kernels to force (default: the best this machine runs)")
      ->check(CLI::IsMember({"scalar", "avx2", "avx512", "neon"}));
  command.add_option("--threads", arguments.threads, "CPU threads; 0 takes every core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

Context make_context(const DeviceArguments& arguments) {
  require(arguments.isa.empty() || arguments.device == "cpu", "--isa {} goes with --device cpu, not {}", arguments.isa,
          arguments.device);
  if (arguments.device == "cuda") return Context::cuda(arguments.numerics);
  return Context::cpu(arguments.numerics, parse_isa(arguments.isa), arguments.threads);
}

}  // namespace reprofuse::cli
