#include "cli/generate_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>

#include "base/check.hpp"
#include "cli/option_values.hpp"
#include "cli/usage.hpp"
#include "numerics/sampling.hpp"

namespace reprofuse::cli {
namespace {

constexpr std::int64_t kDefaultMaxTokens = 256;  // of a model that suggests none

// What the folder's generation_config.json asks for, but for what the command line says.
SamplingParams sampling_of(const AnswerArguments& arguments, const engine::ModelFiles& files) {
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

void add_sampling_options(CLI::App& command, AnswerArguments& arguments) {
  add_real_option(command, "--temperature", arguments.temperature, "0 takes the most likely token")
      ->check(real_number(0, FLT_MAX))
      ->type_name("T");
  add_seed_option(command, arguments.seed, "Seed of the random numbers");
  command.add_option("--top-k", arguments.top_k, "Only the K most likely tokens; 0: all")
      ->check(whole_number<int>(0, INT32_MAX))
      ->type_name("K");
  add_real_option(command, "--top-p", arguments.top_p, "Only the likeliest tokens whose probabilities add up to this")
      ->check(real_number(0, 1))
      ->type_name("P");
  add_real_option(command, "--min-p", arguments.min_p, "Only tokens this likely, relative to the likeliest")
      ->check(real_number(0, 1))
      ->type_name("P");
  add_real_option(command, "--repetition-penalty", arguments.repetition_penalty,
                  "Above 1: against tokens already there")
      ->check(real_number(kMinRepetitionPenalty, kMaxRepetitionPenalty))
      ->type_name("R");
}

}  // namespace

void add_prompt_options(CLI::App& command, PromptArguments& arguments) {
  command.add_flag("--chat", arguments.chat, "Put the prompt through the model's chat template");
  command.add_option("--system", arguments.system, "A system message, with --chat")->type_name("TEXT");
  command
      .add_option("--date", arguments.date,
                  fmt::format("What a chat template sees as today (default: {})", text::to_string(text::DateTime{})))
      ->type_name("DATE");
  add_special_tokens_option(command, arguments.special_tokens);
}

void check_prompt_usage(const PromptArguments& arguments, bool has_text, bool has_lines) {
  check_usage(!arguments.chat || has_text, "--chat goes with --prompt, a text");
  check_usage(!arguments.system || arguments.chat, "--system goes with --chat");
  check_usage(!arguments.date || arguments.chat || has_lines, "--date goes with --chat");
}

void add_answer_options(CLI::App& command, AnswerArguments& arguments) {
  add_prompt_options(command, arguments);
  command
      .add_option("--max-tokens", arguments.max_tokens,
                  fmt::format("The longest answer (default: the model's, or {})", kDefaultMaxTokens))
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N");
  add_sampling_options(command, arguments);
  command.add_option("--stop", arguments.stop_strings, "Text that ends the answer; may be given again")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command.add_flag("--ignore-stop", arguments.ignore_stop, "Go on after a token that ends an answer");
  command
      .add_option(
          "--logprobs", arguments.logprobs,
          "Show for every token its log-probability, the margin of the likeliest over the second, and the N likeliest")
      ->check(whole_number<int>(0, kMaxLogprobs))
      ->type_name("N");
  command.add_option("--digest", arguments.digest, "Print a digest of the logits of every step, tree-1 or chain-1")
      ->expected(0, 1)
      ->check(one_of({"tree-1", "chain-1"}))
      ->default_str("tree-1")
      ->type_name("[KIND]");
}

text::DateTime date_of(const PromptArguments& arguments) {
  return reading_option("--date",
                        [&] { return arguments.date ? text::parse_date(*arguments.date) : text::DateTime{}; });
}

engine::SpecialTokens special_tokens_of(const PromptArguments& arguments) {
  return *engine::special_tokens_from(arguments.special_tokens);
}

engine::Request request_of(const AnswerArguments& arguments, const engine::ModelFiles& files) {
  const auto suggested = files.checkpoint().generation_config().max_new_tokens;
  engine::Request request;
  request.sampling = sampling_of(arguments, files);
  request.max_tokens = arguments.max_tokens.value_or(suggested.value_or(kDefaultMaxTokens));
  if (!arguments.ignore_stop) request.stop_tokens = files.stop_tokens();
  request.stop_strings = arguments.stop_strings;
  request.digest = digest_kind_of(arguments.digest);
  // A margin takes two, where the vocabulary has them.
  constexpr std::int64_t kForMargin = 2;
  if (arguments.logprobs >= 0)
    request.logprobs = static_cast<int>(
        std::max<std::int64_t>(arguments.logprobs, std::min(kForMargin, files.checkpoint().config().vocab_size)));
  return request;
}

std::vector<std::int32_t> encode_text_or_chat(std::string_view prompt, const PromptArguments& arguments,
                                              const engine::TextFormat& text, const text::DateTime& date) {
  if (!arguments.chat) return *text.encode_text(prompt, special_tokens_of(arguments), {.add_special_tokens = true});
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (arguments.system) messages.push_back({{"role", "system"}, {"content", *arguments.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return encode_messages(messages, arguments, text, date);
}

std::vector<std::int32_t> encode_messages(const nlohmann::ordered_json& messages, const PromptArguments& arguments,
                                          const engine::TextFormat& text, const text::DateTime& date) {
  text::ChatVariables given;
  given.date = date;
  return *text.encode_chat(messages, given, special_tokens_of(arguments), {});
}

void limit_to_context(engine::Request& request, std::int64_t context) {
  const std::int64_t room = context - static_cast<std::int64_t>(request.prompt.size());
  require(room >= 1, "a prompt of {} tokens leaves no room in a context of {}", request.prompt.size(), context);
  request.max_tokens = std::min(request.max_tokens, room);
}

}  // namespace reprofuse::cli
