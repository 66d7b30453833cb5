#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/output_file.hpp"
#include "cli/trace_text.hpp"
#include "cli/usage.hpp"

namespace reprofuse::cli {
namespace {

struct TraceArguments {
  TextArguments text;
  DeviceArguments device;
  std::string out;
  bool digests_only = false;
  bool json = false;
};

void run_trace_command(const TraceArguments& arguments) {
  check_usage(!arguments.out.empty() || arguments.json, "say where the trace goes: --out FILE, or --json for digests");
  const engine::ModelFiles files(model_folder(arguments.text.model));
  TextToTrace text = text_to_trace(arguments.text, files);
  text.request.values = !arguments.out.empty() && !arguments.digests_only;
  const OutputFile writable(arguments.out);
  const study::Trace trace = trace_on(make_context(arguments.device), files, model_digest_of(files), text);
  if (!arguments.out.empty()) study::write_trace(arguments.out, trace);
  if (arguments.json) {
    fmt::print("{}\n", study::trace_to_json(trace));
    return;
  }
  fmt::print("{}, {}{}\nmodel {:.16}\n", trace.device, trace.numerics, arguments.device.default_note(),
             trace.model_digest);
  for (const study::TracedStep& step : trace.steps)
    fmt::print("position {:>5}  {} results, logits {:.16}, next {}{}\n", step.position, step.results.size(),
               step.results.back().sha256, step.likeliest[0].token, text_of(step.likeliest[0].token, files.text()));
}

}  // namespace

void add_trace_command(CLI::App& app) {
  auto arguments = std::make_shared<TraceArguments>();
  CLI::App* command = app.add_subcommand("trace", "Record what every op of some steps leaves, bit for bit");
  add_text_options(*command, arguments->text);
  add_device_options(*command, arguments->device);
  command->add_option("--out", arguments->out, "Write the values to this safetensors file")->type_name("FILE");
  command->add_flag("--digests-only", arguments->digests_only, "Leave the values out of the file");
  command->add_flag("--json", arguments->json, "Print the digests as one JSON object and nothing else");
  command->callback([arguments] { run_trace_command(*arguments); });
}

}  // namespace reprofuse::cli
