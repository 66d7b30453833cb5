#include "cli/generate_jsonl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/json.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal.hpp"
#include "engine/engine.hpp"
#include "numerics/sampling.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::cli {
namespace {

// Errors of `read` say where it was reading.
template <typename Read>
auto reading_at(const std::string& place, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", place, error.what());
  }
}

nlohmann::json parse_line(const std::string& line, const std::string& place) {
  try {
    nlohmann::json object = parse_json(line, place);
    require(object.is_object(), "{}: is {}, not a JSON object", place, reprofuse::shown(object));
    return object;
  } catch (const nlohmann::json::parse_error& error) {
    fail(ErrorCode::kInvalidArgument, "{}: is not JSON: it goes wrong at byte {}", place, error.byte);
  }
}

std::optional<float> read_real(JsonReader& reader, const char* key, double min, double max) {
  const nlohmann::json* value = reader.find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || value->get<double>() < min || value->get<double>() > max)
    reader.fail_value(
        key, *value,
        max == FLT_MAX ? "a number of at least 0 that FP32 can hold" : fmt::format("a number from {} to {}", min, max));
  return static_cast<float>(value->get<double>());
}

// Any 64 bits: a negative seed is the unsigned one with the same bits.
std::optional<std::uint64_t> read_seed(JsonReader& reader) {
  const nlohmann::json* seed = reader.find("seed");
  if (seed == nullptr) return std::nullopt;
  if (!seed->is_number_integer()) reader.fail_value("seed", *seed, "a whole number of 64 bits");
  return seed->get<std::uint64_t>();
}

// One string or a list of them.
std::optional<std::vector<std::string>> read_stop(JsonReader& reader) {
  const nlohmann::json* stop = reader.find("stop");
  if (stop == nullptr) return std::nullopt;
  std::vector<std::string> strings;
  for (const nlohmann::json& entry : stop->is_array() ? *stop : nlohmann::json::array({*stop})) {
    if (!entry.is_string() || entry.get_ref<const std::string&>().empty())
      reader.fail_value("stop", *stop, "a string that is not empty, or a list of them");
    strings.push_back(entry.get<std::string>());
  }
  return strings;
}

template <typename T>
void set_if_given(T& value, const auto& given) {
  if (given) value = *given;
}

// What the line says, and the command line where it says nothing.
AnswerArguments read_answer_arguments(JsonReader& reader, AnswerArguments arguments) {
  set_if_given(arguments.max_tokens, reader.optional_integer("max_tokens", 1, kMaxTokens));
  set_if_given(arguments.temperature, read_real(reader, "temperature", 0, FLT_MAX));
  set_if_given(arguments.top_p, read_real(reader, "top_p", 0, 1));
  set_if_given(arguments.min_p, read_real(reader, "min_p", 0, 1));
  set_if_given(arguments.repetition_penalty,
               read_real(reader, "repetition_penalty", kMinRepetitionPenalty, kMaxRepetitionPenalty));
  if (const auto top_k = reader.optional_integer("top_k", 0, INT32_MAX)) arguments.top_k = static_cast<int>(*top_k);
  set_if_given(arguments.seed, read_seed(reader));
  set_if_given(arguments.stop_strings, read_stop(reader));
  set_if_given(arguments.ignore_stop, reader.optional_boolean("ignore_stop"));
  if (const auto logprobs = reader.optional_integer("logprobs", 0, kMaxLogprobs))
    arguments.logprobs = static_cast<int>(*logprobs);
  return arguments;
}

std::vector<std::int32_t> read_ids(JsonReader& reader, const nlohmann::json& list) {
  if (!list.is_array()) reader.fail_value("prompt_tokens", list, "a list of token ids");
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : reader.integers("prompt_tokens", 0, INT32_MAX)) ids.push_back(static_cast<int>(id));
  return ids;
}

// As templates know them, in the order of the line: a role and a text each.
nlohmann::ordered_json read_messages(const std::string& line, JsonReader& reader, const nlohmann::json& list,
                                     const std::string& place) {
  if (!list.is_array() || list.empty()) reader.fail_value("messages", list, "a list of at least one message");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    require(list[i].is_object(), "{}: {} is {}, not an object", place, name, reprofuse::shown(list[i]));
    JsonReader message(list[i], place, name + ".");
    for (const char* key : {"role", "content"})
      if (!message.optional_string(key)) message.fail_missing(key);
    message.refuse_the_rest();
  }
  return nlohmann::ordered_json::parse(line).at("messages");
}

class Jsonl {
 public:
  Jsonl(LineReader& lines, const JsonlJob& job)
      : lines_(lines),
        job_(job),
        text_(job.output.files.text()),
        engine_(job.model, engine_options(), text_.has_tokenizer() ? std::optional(text_.tokenizer()) : std::nullopt) {}

  void run() {
    job_.output.print_numerics();
    const Terminal terminal;
    while (true) {
      take_lines();
      if (open_.empty()) break;  // and no line is left
      for (const engine::RequestUpdate& entry : engine_.step()) update(entry);
      terminal.progress(fmt::format("{} lines answered, {:.1f} tokens/s", answers_, tokens_per_second()));
    }
    terminal.clear_progress();
    fmt::print(stderr, "{} of {} lines answered, {} tokens at {:.1f} per second\n", answers_, answers_ + errors_,
               tokens_, tokens_per_second());
    require(errors_ == 0, "{} of {} lines could not be answered", errors_, answers_ + errors_);
  }

 private:
  struct Open {
    std::string place;
    nlohmann::ordered_json head;  // of its line
    engine::Request request;
    bool is_chat;
    Answer answer;
  };

  engine::EngineOptions engine_options() const {
    engine::EngineOptions options;
    options.max_batch = job_.batch;
    options.max_rows = std::max(job_.batch, std::min(job_.prefill_chunk, engine::kMaxPassRows));
    options.max_prompt_logit_rows = 1;
    options.prefix_cache =
        job_.model.context().state().numerics->is_contract();  // a baseline's bits would depend on it
    options.kv_pages = std::max<std::int64_t>(
        1, engine::kv_pages_within(job_.model, engine::default_kv_bytes(job_.model, options), options.page_size));
    return options;
  }

  // As many as are there and find room; where nothing else is to be done, it waits for one.
  void take_lines() {
    while (static_cast<std::int64_t>(open_.size()) < job_.batch) {
      const std::optional<std::string> line = lines_.next(open_.empty());
      if (!line) return;
      take(*line);
    }
  }

  void take(const std::string& line) {
    const engine::RequestId number = next_++;
    const std::string place = lines_.place();
    nlohmann::ordered_json head = {{"line", lines_.number()}};
    done_.emplace(number, std::nullopt);
    try {
      const nlohmann::json object = parse_line(line, place);
      JsonReader reader(object, place);
      if (const nlohmann::json* id = reader.find("id")) {
        if (!id->is_string() && !id->is_number()) reader.fail_value("id", *id, "a string or a number");
        head["id"] = *id;
      }
      const AnswerArguments arguments = read_answer_arguments(reader, job_.answer);
      std::vector<std::int32_t> prompt = read_prompt(line, reader, arguments, place);
      reading_at(place, [&] {
        engine::Request request = request_of(arguments, job_.output.files);
        request.prompt = std::move(prompt);
        limit_to_context(request, job_.model.max_positions());
        engine_.add(number, request);
        const bool is_chat = reader.find("messages") != nullptr || (arguments.chat && reader.find("prompt") != nullptr);
        open_.emplace(
            number, Open{place, head, std::move(request), is_chat, Answer(text_.has_tokenizer(), arguments.logprobs)});
      });
    } catch (const Error& error) {
      fail_line(number, std::move(head), error.what());
    }
  }

  std::vector<std::int32_t> read_prompt(const std::string& line, JsonReader& reader, const AnswerArguments& arguments,
                                        const std::string& place) const {
    const std::optional<std::string> prompt = reader.optional_string("prompt");
    const nlohmann::json *messages = reader.find("messages"), *ids = reader.find("prompt_tokens");
    reader.refuse_the_rest();
    require((prompt ? 1 : 0) + (messages != nullptr ? 1 : 0) + (ids != nullptr ? 1 : 0) == 1,
            "{}: needs one of 'prompt', 'messages' and 'prompt_tokens'", place);
    if (ids != nullptr) return read_ids(reader, *ids);
    if (prompt) return reading_at(place, [&] { return encode_text_or_chat(*prompt, arguments, text_, job_.date); });
    const nlohmann::ordered_json chat = read_messages(line, reader, *messages, place);
    return reading_at(place, [&] { return encode_messages(chat, arguments, text_, job_.date); });
  }

  void update(const engine::RequestUpdate& entry) {
    Open& open = open_.at(entry.request);
    open.answer.add(entry.update);
    tokens_ += static_cast<std::int64_t>(entry.update.tokens.size());
    if (!entry.update.end) return;
    if (entry.update.end->finish_reason == engine::FinishReason::kError) {
      fail_line(entry.request, std::move(open.head), fmt::format("{}: {}", open.place, entry.update.end->error));
    } else {
      nlohmann::ordered_json root = std::move(open.head);
      root.update(job_.output.to_json(open.request, open.answer));
      if (!open.is_chat) root.erase("date");  // which no template saw
      ++answers_;
      finish(entry.request, root);
    }
    open_.erase(entry.request);
  }

  void fail_line(engine::RequestId number, nlohmann::ordered_json head, const std::string& why) {
    head["error"] = why;
    ++errors_;
    finish(number, head);
  }

  void finish(engine::RequestId number, const nlohmann::ordered_json& root) {
    done_.at(number) = on_one_line(root);
    for (auto first = done_.begin(); first != done_.end() && first->second; first = done_.erase(first))
      fmt::print("{}\n", *first->second);
    require(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "stdout cannot be written");
  }

  double tokens_per_second() const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    return static_cast<double>(tokens_) / std::max(seconds.count(), 1e-9);
  }

  LineReader& lines_;
  const JsonlJob& job_;
  const engine::TextFormat& text_;
  engine::Engine engine_;
  engine::RequestId next_ = 0;
  std::map<engine::RequestId, Open> open_;                        // in the engine
  std::map<engine::RequestId, std::optional<std::string>> done_;  // lines that wait for one before them, and that one
  std::int64_t answers_ = 0, errors_ = 0, tokens_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void add_jsonl_options(CLI::App& command, JsonlArguments& arguments) {
  CLI::Option* file = command.add_option(
      "--jsonl", arguments.file,
      "Answer each line of a file, - for stdin: an object with prompt, messages or prompt_tokens, and perhaps id and "
      "options of its own; a line of JSON for each, in their order");
  file->type_name("FILE")->check([](const std::string& text) { return text.empty() ? "'' names no file" : ""; });
  command.add_option("--batch", arguments.batch, "Answers at once, with --jsonl; does not change them")
      ->check(whole_number<std::int64_t>(1, engine::kMaxBatch))
      ->type_name("N")
      ->capture_default_str()
      ->needs(file);
}

void answer_lines(LineReader& lines, const JsonlJob& job) {
  Jsonl(lines, job).run();
}

}  // namespace reprofuse::cli
