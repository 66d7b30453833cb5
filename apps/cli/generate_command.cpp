#include "cli/generate_command.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/device_options.hpp"
#include "cli/terminal.hpp"
#include "engine/language_model.hpp"
#include "engine/model_folder.hpp"
#include "model/generate.hpp"
#include "text/detokenizer.hpp"

namespace reprofuse::cli {
namespace {

struct GenerateArguments {
  std::string model;  // empty: the one that comes with ReproFuse
  std::optional<std::string> prompt;
  std::vector<std::int32_t> prompt_tokens;
  bool chat = false;
  std::string system;
  std::string date;
  std::int64_t context = 0;
  model::GenerateOptions options;
  DeviceArguments device;
  bool ignore_stop = false;
  bool json = false;
};

std::string read_prompt(const std::string& argument) {
  if (argument != "-") return argument;
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

std::vector<std::int32_t> prompt_of(const GenerateArguments& arguments, const engine::LanguageModel& model) {
  if (!arguments.prompt) return arguments.prompt_tokens;
  const std::string prompt = read_prompt(*arguments.prompt);
  if (!arguments.chat) return model.text().encode_prompt(prompt);
  const text::DateTime date = arguments.date.empty() ? text::DateTime{} : text::parse_date(arguments.date);
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!arguments.system.empty()) messages.push_back({{"role", "system"}, {"content", arguments.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return model.text().encode_chat(messages, date);
}

engine::LanguageModel load(const GenerateArguments& arguments, const Context& context, const Terminal& terminal) {
  const std::string folder = arguments.model.empty() ? engine::embedded_model_folder() : arguments.model;
  return engine::LanguageModel(context, folder, arguments.context, [&](std::int64_t done, std::int64_t total) {
    terminal.progress(fmt::format("loading {} ... {} of {} MB", folder, done / 1'000'000, total / 1'000'000));
  });
}

// Writes text as it becomes certain; token ids when there is no tokenizer.
class AnswerWriter {
 public:
  AnswerWriter(const engine::TextFormat& format, bool to_stdout) : to_stdout_(to_stdout) {
    if (format.has_tokenizer()) detokenizer_.emplace(format.tokenizer());
  }
  void push(std::int32_t token) {
    write(detokenizer_ ? detokenizer_->push(token) : fmt::format("{}{}", text_.empty() ? "" : " ", token));
  }
  void finish() {
    if (detokenizer_) write(detokenizer_->flush());
    if (to_stdout_) fmt::print("\n");
    std::fflush(stdout);
  }
  const std::string& text() const { return text_; }

 private:
  void write(const std::string& piece) {
    text_ += piece;
    if (!to_stdout_ || piece.empty()) return;
    fmt::print("{}", piece);
    std::fflush(stdout);
  }

  bool to_stdout_;
  std::optional<text::StreamDetokenizer> detokenizer_;
  std::string text_;
};

void print_json(const Context& context, const std::vector<std::int32_t>& prompt, const AnswerWriter& answer,
                const model::GenerateResult& result) {
  nlohmann::ordered_json root = {
      {"text", answer.text()},          {"tokens", result.tokens},
      {"prompt_tokens", prompt},        {"finish_reason", model::finish_reason_name(result.finish)},
      {"numerics", context.numerics()}, {"device", context.description()}};
  if (!result.digest.empty()) root["digest"] = result.digest;
  root["prefill_seconds"] = result.prefill_seconds;
  root["decode_seconds"] = result.decode_seconds;
  fmt::print("{}\n", root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_speed(const Context& context, std::size_t prompt_tokens, const model::GenerateResult& result) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, result.steps - 1));
  fmt::print(stderr, "{} on {}: prompt {} tokens in {:.3f} s, answer {} tokens at {:.1f} per second\n",
             context.numerics(), context.description(), prompt_tokens, result.prefill_seconds, result.tokens.size(),
             steps / std::max(result.decode_seconds, 1e-9));
}

void run_generate_command(GenerateArguments arguments) {
  require(arguments.prompt.has_value() != !arguments.prompt_tokens.empty(),
          "give the prompt with either --prompt or --prompt-tokens");
  require(!arguments.chat || arguments.prompt.has_value(), "--chat goes with --prompt");
  require(arguments.system.empty() || arguments.chat, "--system goes with --chat");
  const Context context = make_context(arguments.device);
  const Terminal terminal;
  const engine::LanguageModel language_model = load(arguments, context, terminal);
  terminal.clear_progress();
  const std::vector<std::int32_t> prompt = prompt_of(arguments, language_model);
  if (arguments.chat && !arguments.json)
    fmt::print(stderr, "the chat template sees the date {}\n",
               text::to_string(arguments.date.empty() ? text::DateTime{} : text::parse_date(arguments.date)));

  const model::Model& model = language_model.model();
  const auto longest =
      std::min(model.max_positions(), static_cast<std::int64_t>(prompt.size()) + arguments.options.max_tokens);
  const std::int64_t rows =
      std::min<std::int64_t>(arguments.options.prefill_chunk, std::max<std::size_t>(1, prompt.size()));
  model::KvCache cache(context, model.config(), (longest + model::kDefaultPageSize - 1) / model::kDefaultPageSize);
  model::Runner runner(model, cache, {.rows = rows, .sequences = 1, .logit_rows = 1});
  if (!arguments.ignore_stop) arguments.options.stop_tokens = language_model.stop_tokens();

  AnswerWriter answer(language_model.text(), !arguments.json);
  const model::GenerateResult result =
      model::generate(runner, cache, prompt, arguments.options, [&](std::int32_t token) {
        answer.push(token);
        return true;
      });
  answer.finish();
  if (arguments.json)
    print_json(context, prompt, answer, result);
  else if (arguments.options.digest)
    fmt::print("digest {}\n", result.digest);
  std::fflush(stdout);
  if (!arguments.json) print_speed(context, prompt.size(), result);
}

void add_sampling_options(CLI::App& command, SamplingParams& sampling) {
  command.add_option("--temperature", sampling.temperature, "0 takes the most likely token")->capture_default_str();
  command.add_option("--seed", sampling.seed, "Of the random numbers")->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "Only the K most likely tokens; 0: all")->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "Only the most likely tokens that make up this probability")
      ->capture_default_str();
  command.add_option("--min-p", sampling.min_p, "Only tokens at least this likely, relative to the most likely")
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty, "Above 1: tokens already there are less likely")
      ->capture_default_str();
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Answer a prompt; the text goes to stdout as it comes");
  command->add_option("--model", arguments->model, "Checkpoint folder (default: the model that comes with ReproFuse)")
      ->type_name("DIR");
  command->add_option("--prompt", arguments->prompt, "The prompt; - reads it from stdin")->type_name("TEXT");
  command->add_option("--prompt-tokens", arguments->prompt_tokens, "The prompt as token ids, comma-separated")
      ->delimiter(',');
  command->add_flag("--chat", arguments->chat, "Put the prompt through the model's chat template, as a user's message");
  command->add_option("--system", arguments->system, "A system message, with --chat")->type_name("TEXT");
  command
      ->add_option("--date", arguments->date,
                   fmt::format("What a chat template sees as today (default: {})", text::to_string(text::DateTime{})))
      ->type_name("YYYY-MM-DD");
  command->add_option("--max-tokens", arguments->options.max_tokens, "The longest answer")->capture_default_str();
  command->add_option("--context", arguments->context, "The longest text, prompt and answer (default: the model's)");
  add_sampling_options(*command, arguments->options.sampling);
  command->add_flag("--ignore-stop", arguments->ignore_stop, "Go on after a token that ends an answer");
  command
      ->add_option("--prefill-chunk", arguments->options.prefill_chunk, "Tokens of the prompt per pass; moves no bit")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  add_device_options(*command, arguments->device);
  command->add_flag("--digest", arguments->options.digest, "Print the SHA-256 chain over the logits of every step");
  command->add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  command->callback([arguments] { run_generate_command(*arguments); });
}

}  // namespace reprofuse::cli
