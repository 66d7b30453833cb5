#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/generate_jsonl.hpp"
#include "cli/generate_output.hpp"
#include "cli/generate_receipt.hpp"
#include "cli/generate_request.hpp"
#include "cli/input_files.hpp"
#include "cli/option_values.hpp"
#include "cli/ranks.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/engine.hpp"
#include "engine/model_files.hpp"
#include "model/model.hpp"

namespace reprofuse::cli {
namespace {

struct GenerateArguments {
  std::optional<std::string> model;  // none: the bundled one
  std::optional<std::string> prompt, prompt_file, prompt_tokens;
  JsonlArguments jsonl;
  AnswerArguments answer;
  std::int64_t context = 0;
  std::int64_t prefill_chunk = 512;
  bool json = false;
  ReceiptArguments receipt;
  DeviceArguments device;
  RankArguments ranks;

  bool has_text() const { return prompt || prompt_file; }  // as the prompt
  std::string folder() const { return model_folder(model); }
};

void check_arguments(const GenerateArguments& arguments) {
  const AnswerArguments& answer = arguments.answer;
  const bool has_lines = !arguments.jsonl.file.empty();
  check_usage((arguments.prompt ? 1 : 0) + (arguments.prompt_file ? 1 : 0) + (arguments.prompt_tokens ? 1 : 0) +
                      (has_lines ? 1 : 0) ==
                  1,
              "give the prompt with one of --prompt, --prompt-file and --prompt-tokens, or many with --jsonl");
  check_prompt_usage(answer, arguments.has_text() || has_lines, has_lines);
  check_usage(!has_lines || arguments.receipt.file.empty(),
              "--receipt goes with one prompt, not with --jsonl: a file holds one receipt");
  check_usage(!has_lines || !arguments.json, "--json goes with one prompt: what --jsonl prints is JSON anyway");
  check_usage(arguments.receipt.file.empty() || answer.digest != digest_kind_name(DigestKind::kChain1),
              "--receipt goes with a digest of the kind tree-1");
  for (const std::string& stop : answer.stop_strings) {
    check_usage(!stop.empty(), "--stop: '' is in every text");
    if (!arguments.receipt.file.empty()) reading_option("--stop", [&] { return receipt::canonical_json(stop); });
  }
}

std::vector<std::int32_t> prompt_of(const GenerateArguments& arguments, const engine::TextFormat& text,
                                    const text::DateTime& date) {
  if (arguments.prompt_tokens) return read_prompt_tokens(*arguments.prompt_tokens);
  const bool is_file = arguments.prompt_file || *arguments.prompt == "-";
  const std::string prompt = is_file ? read_prompt_file(arguments.prompt_file.value_or("-")) : *arguments.prompt;
  return encode_text_or_chat(prompt, arguments.answer, text, date);
}

model::Model load(const Context& context, const std::shared_ptr<const model::WeightSource>& source,
                  std::int64_t max_positions, const std::string& folder, const model::TeamPlace& place) {
  const Terminal terminal;
  const auto progress = [&](std::int64_t done, std::int64_t total) {
    terminal.progress(fmt::format("loading {} of {} MB from {}", done / 1'000'000, total / 1'000'000, folder));
  };
  model::Model model(context, source, max_positions, progress, place);
  terminal.clear_progress();
  return model;
}

void generate(engine::Engine& engine, const engine::Request& request, bool to_stdout, Answer& answer,
              receipt::AnswerSteps& steps) {
  constexpr engine::RequestId kId = 0;
  engine.add(kId, request);
  AnswerWriter writer(answer.text().has_value());
  while (!engine.idle())
    for (const engine::RequestUpdate& entry : engine.step()) {
      answer.add(entry.update);
      steps.add(entry.update);
      if (to_stdout && !writer.write(entry.update)) engine.cancel(kId);
    }
  if (to_stdout) writer.finish();
}

void answer_one(const GenerateArguments& arguments, const text::DateTime& date, const model::TeamPlace& place) {
  ReceiptWriter receipt(arguments.receipt, arguments.device.chosen_numerics());
  const std::string folder = arguments.folder();
  const receipt::TextFiles text_files(folder);
  const engine::ModelFiles files(folder);
  const engine::TextFormat& text = files.text();
  engine::Request request = request_of(arguments.answer, files);
  request.prompt = prompt_of(arguments, text, date);
  if (receipt.is_wanted()) request.digest = DigestKind::kTree1;
  const Context context = make_context(arguments.device, place.team);
  // Of the bytes that the model is made of, where a receipt is to name them.
  const auto hashed = receipt.is_wanted() ? std::make_shared<model::HashedSource>(files.source()) : nullptr;
  const model::Model model = hashed ? load(context, hashed, arguments.context, folder, place)
                                    : load(context, files.source(), arguments.context, folder, place);
  limit_to_context(request, model.max_positions());
  engine::Engine engine(model, engine::options_for_one(request, arguments.prefill_chunk),
                        text.has_tokenizer() ? std::optional(text.tokenizer()) : std::nullopt);
  engine.check(request);

  const GenerateOutput output{
      .context = context,
      .default_note = arguments.device.default_note(),
      .files = files,
      .date = arguments.answer.chat && text.template_uses_date() ? std::optional(date) : std::nullopt,
      .model_digest = arguments.json && request.digest != DigestKind::kNone ? model_digest_of(files) : ""};
  if (!arguments.json) output.print_notes(request);
  receipt::AnswerSteps steps;
  Answer answer(text.has_tokenizer(), arguments.answer.logprobs);
  generate(engine, request, !arguments.json, answer, steps);
  if (answer.end().finish_reason == engine::FinishReason::kError) fail(ErrorCode::kNonFinite, "{}", answer.end().error);
  if (hashed) {
    receipt::Artifacts artifacts = artifacts_of(files, text_files, hashed->manifest(), text::to_string(date),
                                                model.max_positions(), special_tokens_of(arguments.answer));
    receipt.write(receipt::issuer_facts(context, std::move(artifacts), kVersion), request, std::move(steps));
  }
  if (arguments.json)
    output.print_json(request, answer);
  else
    output.print_end(request, answer);
}

void answer_many(const GenerateArguments& arguments, const text::DateTime& date, const model::TeamPlace& place) {
  LineReader lines(arguments.jsonl.file);
  const std::string folder = arguments.folder();
  const engine::ModelFiles files(folder);
  const Context context = make_context(arguments.device, place.team);
  const model::Model model = load(context, files.source(), arguments.context, folder, place);
  const bool has_digest = digest_kind_of(arguments.answer.digest) != DigestKind::kNone;
  const GenerateOutput output{.context = context,
                              .default_note = arguments.device.default_note(),
                              .files = files,
                              .date = files.text().template_uses_date() ? std::optional(date) : std::nullopt,
                              .model_digest = has_digest ? model_digest_of(files) : ""};
  answer_lines(lines, {.answer = arguments.answer,
                       .output = output,
                       .model = model,
                       .batch = arguments.jsonl.batch,
                       .prefill_chunk = arguments.prefill_chunk,
                       .date = date});
}

void run_generate_command(const GenerateArguments& arguments) {
  check_arguments(arguments);
  const text::DateTime date = date_of(arguments.answer);
  const model::TeamPlace place{open_team(arguments.ranks)};
  const auto make_share = [&](std::int32_t) {
    return std::make_unique<model::Model>(make_context(arguments.device, place.team),
                                          engine::ModelFiles(arguments.folder()).source(), arguments.context,
                                          Progress{}, place);
  };
  if (run_as_follower(place.team, make_share)) return;
  if (arguments.jsonl.file.empty())
    answer_one(arguments, date, place);
  else
    answer_many(arguments, date, place);
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Answer a prompt; the text goes to stdout as it comes");
  add_model_option(*command, arguments->model);
  command->add_option("--prompt", arguments->prompt, "The prompt; - reads it from stdin")->type_name("TEXT");
  command->add_option("--prompt-file", arguments->prompt_file, "The prompt is the text of a file; - is stdin")
      ->type_name("FILE");
  add_prompt_tokens_option(*command, arguments->prompt_tokens, "The prompt");
  add_jsonl_options(*command, arguments->jsonl);
  add_answer_options(*command, arguments->answer);
  command->add_option("--context", arguments->context, "The longest text (default: as the model declares)")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N");
  command
      ->add_option("--prefill-chunk", arguments->prefill_chunk,
                   "Tokens of the prompt per pass; does not change the answer")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N")
      ->capture_default_str();
  add_device_options(*command, arguments->device);
  add_rank_options(*command, arguments->ranks);
  add_receipt_options(*command, arguments->receipt);
  command->add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  command->footer(
      "Sampling options that are not given are those of the model's generation_config.json, or else\n"
      "greedy. A token is a function of the logits, these options, the seed and its position.");
  command->callback([arguments] { run_generate_command(*arguments); });
}

}  // namespace reprofuse::cli
