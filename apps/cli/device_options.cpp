#include "cli/device_options.hpp"

#include "cli/option_values.hpp"
#include "cli/usage.hpp"

namespace reprofuse::cli {
void add_device_options(CLI::App& command, DeviceArguments& arguments) {
  command
      .add_option("--numerics", arguments.numerics,
                  fmt::format("How to compute: {}", fmt::join(numerics_names(), ", ")))
      ->check(one_of(numerics_names()))
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--device", arguments.device, "Where to compute")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--isa", arguments.isa, "CPU kernels to force (default: the best this machine runs)")
      ->check(one_of({"scalar", "avx2", "avx512", "neon"}));
  command.add_option("--threads", arguments.threads, "CPU threads; 0 takes every core")
      ->type_name("N")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
}

Context make_context(const DeviceArguments& arguments) {
  check_usage(arguments.device == "cpu" || (arguments.isa.empty() && arguments.threads == 0),
              fmt::format("--isa and --threads go with --device cpu, not {}", arguments.device));
  if (arguments.device == "cuda") return Context::cuda(arguments.numerics);
  return Context::cpu(arguments.numerics, parse_isa(arguments.isa), arguments.threads);
}

}  // namespace reprofuse::cli
