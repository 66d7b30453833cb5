#include "cli/generate_command.hpp"

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/device_options.hpp"
#include "cli/generate_output.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/model_files.hpp"
#include "model/generate.hpp"
#include "model/model.hpp"

namespace reprofuse::cli {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;

struct GenerateArguments {
  std::optional<std::string> model;  // none: the one that comes with ReproFuse
  std::optional<std::string> prompt;
  std::vector<std::int32_t> prompt_tokens;
  bool chat = false;
  std::optional<std::string> system;
  std::optional<std::string> date;
  std::int64_t context = 0;
  std::optional<std::int64_t> max_tokens;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::uint64_t seed = 0;
  std::int64_t prefill_chunk = 512;
  bool ignore_stop = false;
  bool digest = false;
  bool json = false;
  DeviceArguments device;
};

void check_arguments(const GenerateArguments& arguments) {
  check_usage(arguments.prompt.has_value() != !arguments.prompt_tokens.empty(),
              "give the prompt with either --prompt or --prompt-tokens");
  check_usage(!arguments.chat || arguments.prompt, "--chat goes with --prompt");
  check_usage(!arguments.system || arguments.chat, "--system goes with --chat");
  check_usage(!arguments.date || arguments.chat, "--date goes with --chat");
}

// What the folder's generation_config.json asks for, but for what the command line says.
SamplingParams sampling_of(const GenerateArguments& arguments, const engine::ModelFiles& files) {
  SamplingParams params = files.suggested_sampling();
  params.temperature = arguments.temperature.value_or(params.temperature);
  params.top_k = arguments.top_k.value_or(params.top_k);
  params.top_p = arguments.top_p.value_or(params.top_p);
  params.min_p = arguments.min_p.value_or(params.min_p);
  params.repetition_penalty = arguments.repetition_penalty.value_or(params.repetition_penalty);
  params.seed = arguments.seed;
  check_sampling_params(params);
  return params;
}

std::string read_prompt(const std::string& argument) {
  if (argument != "-") return argument;
  std::string prompt{std::istreambuf_iterator<char>(std::cin), {}};
  require(!std::cin.bad() && std::ferror(stdin) == 0 && !prompt.empty(), "there is no prompt on stdin");
  if (prompt.back() == '\n') prompt.pop_back();  // the end of the line, not part of what was typed
  return prompt;
}

std::vector<std::int32_t> prompt_of(const GenerateArguments& arguments, const engine::TextFormat& text,
                                    const text::DateTime& date) {
  if (!arguments.prompt) return arguments.prompt_tokens;
  const std::string prompt = read_prompt(*arguments.prompt);
  if (!arguments.chat) return text.encode_prompt(prompt);
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (arguments.system) messages.push_back({{"role", "system"}, {"content", *arguments.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return text.encode_chat(messages, date);
}

model::GenerateOptions options_of(const GenerateArguments& arguments, const engine::ModelFiles& files) {
  constexpr std::int64_t kDefaultTokens = 256;
  const auto suggested = files.checkpoint().generation_config().max_new_tokens;
  return {.max_tokens = arguments.max_tokens.value_or(suggested.value_or(kDefaultTokens)),
          .prefill_chunk = arguments.prefill_chunk,
          .sampling = sampling_of(arguments, files),
          .digest = arguments.digest,
          .stop_tokens = arguments.ignore_stop ? std::vector<std::int32_t>{} : files.stop_tokens()};
}

model::Model load(const Context& context, const engine::ModelFiles& files, std::int64_t max_positions) {
  const Terminal terminal;
  model::Model model(context, files.source(), max_positions, [&](std::int64_t done, std::int64_t total) {
    terminal.progress(fmt::format("loading {} of {} MB from {}", done / 1'000'000, total / 1'000'000, files.path()));
  });
  terminal.clear_progress();
  return model;
}

void run_generate_command(const GenerateArguments& arguments) {
  check_arguments(arguments);
  const text::DateTime date =
      reading_option("--date", [&] { return arguments.date ? text::parse_date(*arguments.date) : text::DateTime{}; });
  const engine::ModelFiles files(arguments.model ? *arguments.model : engine::embedded_model_folder());
  const model::GenerateOptions options = options_of(arguments, files);
  const std::vector<std::int32_t> prompt = prompt_of(arguments, files.text(), date);
  const Context context = make_context(arguments.device);
  const model::Model model = load(context, files, arguments.context);

  const auto longest = std::min(model.max_positions(), static_cast<std::int64_t>(prompt.size()) + options.max_tokens);
  model::KvCache cache(context, model.config(), (longest + model::kDefaultPageSize - 1) / model::kDefaultPageSize);
  const auto rows = std::min<std::int64_t>(options.prefill_chunk, std::max<std::size_t>(1, prompt.size()));
  model::Runner runner(model, cache, {.rows = rows, .sequences = 1, .logit_rows = 1});

  const GenerateOutput output{
      .context = context,
      .files = files,
      .options = options,
      .prompt = prompt,
      .date = arguments.chat && files.text().template_uses_date() ? std::optional(date) : std::nullopt};
  if (!arguments.json) output.print_notes();
  AnswerWriter answer(files.text(), !arguments.json);
  const model::GenerateResult result =
      model::generate(runner, cache, prompt, options, [&](std::int32_t token) { return answer.push(token); });
  answer.finish();
  if (arguments.json)
    output.print_json(answer.text(), result);
  else
    output.print_end(result);
}

void add_sampling_options(CLI::App& command, GenerateArguments& arguments) {
  add_real_option(command, "--temperature", arguments.temperature, "0 takes the most likely token")
      ->check(real_number(0, FLT_MAX))
      ->type_name("T");
  add_seed_option(command, arguments.seed, "Of the random numbers");
  command.add_option("--top-k", arguments.top_k, "Only the K most likely tokens; 0: all")
      ->check(whole_number<int>(0, INT32_MAX))
      ->type_name("K");
  add_real_option(command, "--top-p", arguments.top_p, "Only the likeliest tokens that make up this part")
      ->check(real_number(0, 1))
      ->type_name("P");
  add_real_option(command, "--min-p", arguments.min_p, "Only tokens this likely, relative to the likeliest")
      ->check(real_number(0, 1))
      ->type_name("P");
  add_real_option(command, "--repetition-penalty", arguments.repetition_penalty,
                  "Above 1: against tokens already there")
      ->check(real_number(FLT_MIN, FLT_MAX))
      ->type_name("R");
  command.footer(
      "Sampling options that are not given are those of the model's generation_config.json, or else\n"
      "greedy. A token is a function of the logits, these options, the seed and its position.");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Answer a prompt; the text goes to stdout as it comes");
  command->add_option("--model", arguments->model, "Checkpoint folder (default: the one of ReproFuse)")
      ->type_name("DIR");
  command->add_option("--prompt", arguments->prompt, "The prompt; - reads it from stdin")->type_name("TEXT");
  command->add_option("--prompt-tokens", arguments->prompt_tokens, "The prompt as token ids, comma-separated")
      ->check(whole_number<std::int32_t>(0, INT32_MAX))
      ->type_name("IDS")
      ->delimiter(',');
  command->add_flag("--chat", arguments->chat, "Put the prompt through the model's chat template");
  command->add_option("--system", arguments->system, "A system message, with --chat")->type_name("TEXT");
  command
      ->add_option("--date", arguments->date,
                   fmt::format("What a chat template sees as today (default: {})", text::to_string(text::DateTime{})))
      ->type_name("DATE");
  command->add_option("--max-tokens", arguments->max_tokens, "The longest answer (default: the model's, or 256)")
      ->check(whole_number<std::int64_t>(1, kMostTokens))
      ->type_name("N");
  command->add_option("--context", arguments->context, "The longest text (default: as the model declares)")
      ->check(whole_number<std::int64_t>(1, kMostTokens))
      ->type_name("N");
  add_sampling_options(*command, *arguments);
  command->add_flag("--ignore-stop", arguments->ignore_stop, "Go on after a token that ends an answer");
  command->add_option("--prefill-chunk", arguments->prefill_chunk, "Tokens of the prompt per pass; moves no bit")
      ->check(whole_number<std::int64_t>(1, kMostTokens))
      ->type_name("N")
      ->capture_default_str();
  add_device_options(*command, arguments->device);
  command->add_flag("--digest", arguments->digest, "Print the SHA-256 chain over the logits of every step");
  command->add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  command->callback([arguments] { run_generate_command(*arguments); });
}

}  // namespace reprofuse::cli
