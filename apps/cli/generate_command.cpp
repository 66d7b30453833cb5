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
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/generate_output.hpp"
#include "cli/generate_receipt.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/engine.hpp"
#include "engine/model_files.hpp"
#include "model/model.hpp"

namespace reprofuse::cli {
namespace {

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
  std::vector<std::string> stop_strings;
  bool ignore_stop = false;
  std::string digest = "none";
  bool json = false;
  ReceiptArguments receipt;
  DeviceArguments device;
};

void check_arguments(const GenerateArguments& arguments) {
  check_usage(arguments.prompt.has_value() != !arguments.prompt_tokens.empty(),
              "give the prompt with either --prompt or --prompt-tokens");
  check_usage(!arguments.chat || arguments.prompt, "--chat goes with --prompt");
  check_usage(!arguments.system || arguments.chat, "--system goes with --chat");
  check_usage(!arguments.date || arguments.chat, "--date goes with --chat");
  check_usage(arguments.receipt.file.empty() || arguments.digest != digest_kind_name(DigestKind::kChain1),
              "--receipt goes with a digest of the kind tree-1");
  for (const std::string& stop : arguments.stop_strings) {
    check_usage(!stop.empty(), "--stop: '' is in every text");
    if (!arguments.receipt.file.empty()) reading_option("--stop", [&] { return receipt::canonical_json(stop); });
  }
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
  text::ChatVariables given;
  given.date = date;
  return text.encode_chat(messages, given);
}

engine::Request request_of(const GenerateArguments& arguments, const engine::ModelFiles& files,
                           const text::DateTime& date) {
  constexpr std::int64_t kDefaultTokens = 256;
  const auto suggested = files.checkpoint().generation_config().max_new_tokens;
  engine::Request request;
  request.sampling = sampling_of(arguments, files);
  request.prompt = prompt_of(arguments, files.text(), date);
  request.max_tokens = arguments.max_tokens.value_or(suggested.value_or(kDefaultTokens));
  if (!arguments.ignore_stop) request.stop_tokens = files.stop_tokens();
  request.stop_strings = arguments.stop_strings;
  request.digest = arguments.receipt.file.empty() ? digest_kind_of(arguments.digest) : DigestKind::kTree1;
  return request;
}

model::Model load(const Context& context, const std::shared_ptr<const model::WeightSource>& source,
                  std::int64_t max_positions, const std::string& folder) {
  const Terminal terminal;
  model::Model model(context, source, max_positions, [&](std::int64_t done, std::int64_t total) {
    terminal.progress(fmt::format("loading {} of {} MB from {}", done / 1'000'000, total / 1'000'000, folder));
  });
  terminal.clear_progress();
  return model;
}

// An answer ends at the latest where the context does.
void limit_to_context(engine::Request& request, std::int64_t context) {
  const std::int64_t room = context - static_cast<std::int64_t>(request.prompt.size());
  require(room >= 1, "a prompt of {} tokens leaves no room in a context of {}", request.prompt.size(), context);
  request.max_tokens = std::min(request.max_tokens, room);
}

// For one request alone: memory for its own text, and nothing kept for others.
engine::EngineOptions engine_options(const engine::Request& request, std::int64_t prefill_chunk) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  engine::EngineOptions options;
  options.kv_pages = (prompt + request.max_tokens + options.page_size - 1) / options.page_size;
  options.max_batch = 1;
  options.max_rows = std::clamp<std::int64_t>(prompt, 1, prefill_chunk);
  options.max_prompt_logit_rows = 1;
  options.prefix_cache = false;
  return options;
}

Answer generate(engine::Engine& engine, const engine::Request& request, bool has_text, bool to_stdout,
                receipt::Answer& steps) {
  constexpr engine::RequestId kId = 0;
  engine.add(kId, request);
  Answer answer(has_text);
  AnswerWriter writer(has_text);
  while (!engine.idle())
    for (const engine::RequestUpdate& entry : engine.step()) {
      answer.add(entry.update);
      steps.add(entry.update);
      if (to_stdout && !writer.write(entry.update)) engine.cancel(kId);
    }
  if (to_stdout) writer.finish();
  return answer;
}

void run_generate_command(const GenerateArguments& arguments) {
  check_arguments(arguments);
  const text::DateTime date =
      reading_option("--date", [&] { return arguments.date ? text::parse_date(*arguments.date) : text::DateTime{}; });
  ReceiptWriter receipt(arguments.receipt);
  const std::string folder = arguments.model ? *arguments.model : engine::bundled_model_folder();
  const receipt::TextFiles text_files(folder);
  const engine::ModelFiles files(folder);
  const engine::TextFormat& text = files.text();
  engine::Request request = request_of(arguments, files, date);
  const Context context = make_context(arguments.device);
  // Of the bytes that the model is made of, where a receipt is to name them.
  const auto hashed = receipt.is_wanted() ? std::make_shared<model::HashedSource>(files.source()) : nullptr;
  const model::Model model = hashed ? load(context, hashed, arguments.context, folder)
                                    : load(context, files.source(), arguments.context, folder);
  limit_to_context(request, model.max_positions());
  engine::Engine engine(model, engine_options(request, arguments.prefill_chunk),
                        text.has_tokenizer() ? std::optional(text.tokenizer()) : std::nullopt);
  engine.check(request);

  const GenerateOutput output{.context = context,
                              .files = files,
                              .request = request,
                              .date = arguments.chat && text.template_uses_date() ? std::optional(date) : std::nullopt};
  if (!arguments.json) output.print_notes();
  receipt::Answer steps;
  const Answer answer = generate(engine, request, text.has_tokenizer(), !arguments.json, steps);
  if (answer.end().finish_reason == engine::FinishReason::kError) fail(ErrorCode::kNonFinite, "{}", answer.end().error);
  if (hashed) {
    receipt::Artifacts artifacts =
        artifacts_of(files, text_files, hashed->manifest(), text::to_string(date), model.max_positions());
    receipt.write(receipt::issuer_facts(context, std::move(artifacts), kVersion), request, std::move(steps));
  }
  if (arguments.json)
    output.print_json(answer);
  else
    output.print_end(answer);
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
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N");
  command->add_option("--context", arguments->context, "The longest text (default: as the model declares)")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N");
  add_sampling_options(*command, *arguments);
  command->add_option("--stop", arguments->stop_strings, "Text that ends the answer; may be given again")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command->add_flag("--ignore-stop", arguments->ignore_stop, "Go on after a token that ends an answer");
  command->add_option("--prefill-chunk", arguments->prefill_chunk, "Tokens of the prompt per pass; moves no bit")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N")
      ->capture_default_str();
  add_device_options(*command, arguments->device);
  command->add_option("--digest", arguments->digest, "Print a digest of the logits of every step, tree-1 or chain-1")
      ->expected(0, 1)
      ->check(one_of({"tree-1", "chain-1"}))
      ->default_str("tree-1")
      ->type_name("[KIND]");
  add_receipt_options(*command, arguments->receipt);
  command->add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  command->callback([arguments] { run_generate_command(*arguments); });
}

}  // namespace reprofuse::cli
