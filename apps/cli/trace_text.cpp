#include "cli/trace_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/input_files.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/engine.hpp"

namespace reprofuse::cli {
namespace {

// "7", or "0-6" with both ends.
void add_positions(const std::string& range, std::vector<std::int64_t>& positions) {
  const CLI::Validator is_position = whole_number<std::int64_t>(0, kMaxTokens);
  const std::size_t dash = range.find('-', 1);
  const std::string first = range.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
  for (const std::string& end : {first, last})
    if (const std::string problem = is_position(end); !problem.empty())
      throw CLI::ValidationError("--positions", problem);
  const std::int64_t begin = std::stoll(first), end = std::stoll(last);
  if (begin > end) throw CLI::ValidationError("--positions", fmt::format("'{}' is a range without positions", range));
  for (std::int64_t position = begin; position <= end; ++position) positions.push_back(position);
}

}  // namespace

void add_text_options(CLI::App& command, TextArguments& arguments) {
  add_model_option(command, arguments.model);
  command.add_option("--prompt", arguments.prompt, "The text to read; - reads it from stdin")->type_name("TEXT");
  add_prompt_tokens_option(command, arguments.prompt_tokens, "The text");
  command.add_option("--max-tokens", arguments.max_tokens, "How many tokens to choose after it; each is a step")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N")
      ->capture_default_str();
  const auto read_positions = [&arguments](const std::vector<std::string>& list) {
    for (const std::string& range : list) add_positions(range, arguments.positions);
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--positions", read_positions,
          "Positions in the text to look at, and ranges, as in 0-6,9 (default: those that choose a token)")
      ->type_name("LIST")
      ->delimiter(',');
  command
      .add_option("--prefill-chunk", arguments.chunk, "Tokens of the prompt per pass; moves bits of baselines alone")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N")
      ->capture_default_str();
  add_prompt_options(command, arguments.form);
  for (const char* name : {"--prompt", "--prompt-tokens", "--max-tokens", "--positions", "--prefill-chunk", "--chat",
                           "--system", "--date", "--special-tokens-in-content"})
    arguments.about_text.push_back(command.get_option(name));
}

TextToTrace text_to_trace(const TextArguments& arguments, const engine::ModelFiles& files) {
  check_usage(arguments.prompt.has_value() != arguments.prompt_tokens.has_value(),
              "give the text with either --prompt or --prompt-tokens");
  check_prompt_usage(arguments.form, arguments.prompt.has_value());
  const text::DateTime date = date_of(arguments.form);
  std::vector<std::int64_t> positions = arguments.positions;
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  const auto typed = [&] { return *arguments.prompt == "-" ? read_prompt_file("-") : *arguments.prompt; };
  return {.request = {.prompt = arguments.prompt ? encode_text_or_chat(typed(), arguments.form, files.text(), date)
                                                 : read_prompt_tokens(*arguments.prompt_tokens),
                      .answer = {},
                      .positions = std::move(positions),
                      .chunk = arguments.chunk},
          .chosen_tokens = arguments.max_tokens - 1};  // the last one is chosen, but not read
}

namespace {

// What the model answers, greedily and past any end.
std::vector<std::int32_t> answer_of(const model::Model& model, const study::TraceRequest& text, std::int64_t tokens) {
  engine::Request request;
  request.prompt = text.prompt;
  request.max_tokens = tokens;
  engine::Engine engine(model, engine::options_for_one(request, text.chunk), std::nullopt);
  engine.add(0, std::move(request));
  std::vector<std::int32_t> answer;
  while (!engine.idle())
    for (const engine::RequestUpdate& entry : engine.step()) {
      for (const engine::AnswerToken& token : entry.update.tokens) answer.push_back(token.id);
      const auto& end = entry.update.end;
      if (end && end->finish_reason == engine::FinishReason::kError) fail(ErrorCode::kNonFinite, "{}", end->error);
    }
  return answer;
}

}  // namespace

study::Trace trace_on(const Context& context, const engine::ModelFiles& files, const std::string& model_digest,
                      const TextToTrace& text) {
  const Terminal terminal;
  terminal.progress(fmt::format("{}, {} ...", context.description(), context.numerics()));
  study::TraceRequest request = text.request;
  const auto length = static_cast<std::int64_t>(request.prompt.size() + request.answer.size()) + text.chosen_tokens;
  const std::int64_t declared = files.checkpoint().config().max_positions;
  require(length <= declared, "a text of {} tokens; the model's context has {}", length, declared);
  study::check_positions(request.positions, length);
  const model::Model model(context, files.source(), length);
  if (text.chosen_tokens > 0) request.answer = answer_of(model, request, text.chosen_tokens);
  study::Trace trace = study::make_trace(model, request);
  trace.version = kVersion;
  trace.model_digest = model_digest;
  terminal.clear_progress();
  return trace;
}

std::string text_of(std::int32_t token, const engine::TextFormat& text) {
  if (!text.has_tokenizer()) return {};
  return " " + nlohmann::json(text.tokenizer().decode({{token}}))
                   .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace reprofuse::cli
