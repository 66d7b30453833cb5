// The options that say where and by which numerics to compute, for every command that runs a model.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "model/team.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::engine {
class ModelFiles;
}

namespace reprofuse::cli {

struct DeviceArguments {
  std::string numerics;  // empty: the default of the device
  std::string device = "cpu";
  std::string isa;  // empty: the best there is
  int threads = 0;

  std::string chosen_numerics() const { return numerics.empty() ? std::string(default_numerics(device)) : numerics; }
  // For the first line of what a command prints, after numerics and device; empty where the numerics were named.
  std::string default_note() const { return numerics.empty() ? kDefaultNote : ""; }
  static constexpr const char* kDefaultNote = ", the default there; --numerics chooses another";
};

CLI::Validator is_device();
std::string default_numerics_names();           // "fma-1 on cpu, int16-1 on cuda"
bool takes_threads(const std::string& device);  // and an instruction set: --threads and --isa

void add_device_options(CLI::App& command, DeviceArguments& arguments);
void add_device_only_options(CLI::App& command, std::string& device, std::string& isa, int& threads);  // no --numerics
void add_model_option(CLI::App& command, std::optional<std::string>& folder);  // none: the bundled one
std::string model_folder(const std::optional<std::string>& folder);            // which is looked for
std::string model_digest_of(const engine::ModelFiles& files);
// --as: what an older GPU would run. act_as() comes before any context of the command.
void add_as_option(CLI::App& command, std::string& architecture);
void act_as(const std::string& architecture, const std::string& device);
// Of a rank: where --threads is not given, it takes its share of the machine's cores.
Context make_context(const DeviceArguments& arguments, const std::shared_ptr<model::Team>& team = nullptr);

}  // namespace reprofuse::cli
