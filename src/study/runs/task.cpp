#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"
#include "study/runs/runs.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::int32_t> parse_tokens(const nlohmann::json& list, const std::string& place) {
  require(list.is_array() && !list.empty(), "{}: 'prompt_tokens' is no list of token ids", place);
  std::vector<std::int32_t> tokens;
  for (const nlohmann::json& id : list) {
    require(id.is_number_unsigned() && id.get<std::uint64_t>() <= INT32_MAX, "{}: {} in 'prompt_tokens' is no token id",
            place, shown(id));
    tokens.push_back(id.get<std::int32_t>());
  }
  return tokens;
}

Problem parse_problem(std::string_view line, const std::string& place) {
  Problem problem;
  try {
    const nlohmann::json json = parse_json(line, place, {.depth = 64});
    require(json.is_object(), "{}: is no JSON object", place);
    const bool has_prompt = json.contains("prompt"), has_messages = json.contains("messages");
    const bool has_tokens = json.contains("prompt_tokens");
    require(has_prompt + has_messages + has_tokens == 1, "{}: needs one of 'prompt', 'messages' and 'prompt_tokens'",
            place);
    if (has_prompt) {
      require(json["prompt"].is_string(), "{}: 'prompt' is no string", place);
      problem.prompt = json["prompt"].get<std::string>();
    } else if (has_tokens) {
      problem.tokens = parse_tokens(json["prompt_tokens"], place);
    } else {
      require(json["messages"].is_array() && !json["messages"].empty(), "{}: 'messages' is no list of messages", place);
      problem.messages = nlohmann::ordered_json::parse(line).at("messages");
    }
    const auto text_of = [&](const char* key) -> std::string {
      if (!json.contains(key) || json[key].is_null()) return {};
      if (json[key].is_string()) return json[key].get<std::string>();
      require(json[key].is_number(), "{}: '{}' is neither a string nor a number", place, key);
      return json[key].dump();
    };
    problem.id = text_of("id");
    problem.answer = text_of("answer");
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kInvalidArgument, "{}: is not JSON", place);
  }
  return problem;
}

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0 &&
         text.find_first_not_of("0123456789,.") == std::string_view::npos;
}

// "1,234.50" is "1234.5".
std::string plain_number(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (c != ',') plain += c;
  while (plain.ends_with('.')) plain.pop_back();
  if (plain.find('.') != std::string::npos) {
    while (plain.ends_with('0')) plain.pop_back();
    if (plain.ends_with('.')) plain.pop_back();
  }
  return plain;
}

std::string last_number(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && std::isdigit(static_cast<unsigned char>(text[end - 1])) == 0) --end;
  std::size_t begin = end;
  while (begin > 0 && std::string_view("0123456789,.").find(text[begin - 1]) != std::string_view::npos) --begin;
  while (begin < end && std::isdigit(static_cast<unsigned char>(text[begin])) == 0) ++begin;
  const bool is_negative = begin > 0 && text[begin - 1] == '-' &&
                           (begin == 1 || std::isalnum(static_cast<unsigned char>(text[begin - 2])) == 0);
  return (is_negative ? "-" : "") + plain_number(text.substr(begin, end - begin));
}

char last_letter(std::string_view text) {
  const auto is_word = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  for (std::size_t i = text.size(); i-- > 0;)
    if (std::isupper(static_cast<unsigned char>(text[i])) != 0 && !is_word(i + 1) && (i == 0 || !is_word(i - 1)))
      return text[i];
  return 0;
}

}  // namespace

std::vector<Problem> parse_task(std::string_view text, const std::string& file) {
  std::vector<Problem> problems;
  std::set<std::string> ids;
  bool is_json = false;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    if (problems.empty()) is_json = line.front() == '{';
    const std::string place = fmt::format("{}, line {}", file, number);
    Problem problem;
    if (is_json)
      problem = parse_problem(line, place);
    else
      problem.prompt = line;
    if (problem.id.empty()) problem.id = std::to_string(number);
    require(ids.insert(problem.id).second, "{}: a second problem with the id '{}'", place, problem.id);
    problems.push_back(std::move(problem));
  }
  require(!problems.empty(), "{}: has no problems", file);
  return problems;
}

std::vector<Problem> read_task(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read", path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  require(!file.bad(), "{}: cannot be read", path);
  return parse_task(text, std::filesystem::path(path).filename().string());
}

std::vector<std::int32_t> prompt_tokens(const Problem& problem, const engine::TextFormat& text,
                                        const text::DateTime& date, bool chat) {
  text::ChatVariables given;
  given.date = date;
  if (!problem.tokens.empty()) return problem.tokens;
  if (!problem.messages.is_null()) return text.encode_chat(problem.messages, given);
  if (!chat) return text.encode_prompt(problem.prompt);
  return text.encode_chat({{{"role", "user"}, {"content", problem.prompt}}}, given);
}

bool is_right(std::string_view text, std::string_view answer) {
  text = trimmed(text);
  answer = trimmed(answer);
  if (is_number(answer)) return last_number(text) == plain_number(answer);
  if (answer.size() == 1 && std::isupper(static_cast<unsigned char>(answer[0])) != 0)
    return last_letter(text) == answer[0];
  if (text.ends_with('.') && !answer.ends_with('.')) text.remove_suffix(1);
  return text.ends_with(answer);
}

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

RunStep step_of(const engine::AnswerToken& token) {
  RunStep step{.token = token.id};
  for (std::size_t i = 0; i < kCandidates; ++i) {
    step.ids[i] = token.likelihood->top[i].id;
    step.logprobs[i] = token.likelihood->top[i].logprob;
  }
  return step;
}

engine::EngineOptions engine_options(const model::Model& model, const RunRequest& request) {
  engine::EngineOptions options;
  options.max_batch = request.batch;
  std::int64_t longest = 0;
  for (const auto& prompt : request.prompts)
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()) + request.max_tokens);
  require(longest <= model.max_positions(), "a prompt and its answer of {} tokens; the context has {}", longest,
          model.max_positions());
  const std::int64_t pages = request.batch * ((longest + options.page_size - 1) / options.page_size);
  options.kv_pages =
      std::min(pages, engine::kv_pages_within(model, engine::default_kv_bytes(model, options), options.page_size));
  options.prefix_cache = false;  // a baseline's bits would depend on what came before
  return options;
}

}  // namespace

std::vector<std::uint32_t> arrival_order(std::uint64_t seed, std::size_t problems) {
  std::vector<std::uint32_t> order(problems);
  std::iota(order.begin(), order.end(), 0U);
  if (seed == 0) return order;
  for (std::size_t i = problems; i > 1; --i) std::swap(order[i - 1], order[random_word(seed, i) % i]);
  return order;
}

std::string tokens_sha256(const std::vector<std::int32_t>& tokens) {
  Sha256 hash;
  for (const std::int32_t token : tokens) {
    const auto word = static_cast<std::uint32_t>(token);
    const std::array<std::uint8_t, 4> bytes = {static_cast<std::uint8_t>(word), static_cast<std::uint8_t>(word >> 8),
                                               static_cast<std::uint8_t>(word >> 16),
                                               static_cast<std::uint8_t>(word >> 24)};
    hash.update(bytes.data(), bytes.size());
  }
  return to_hex(hash.finish());
}

void make_cell(RunWriter& writer, std::uint32_t cell, const model::Model& model, const RunRequest& request,
               const Tokenizer* tokenizer, const std::function<void(const RunProgress&)>& progress) {
  require(model.config().vocab_size >= kCandidates, "a vocabulary of {} tokens is too small for a study",
          model.config().vocab_size);
  engine::Engine engine(model, engine_options(model, request),
                        tokenizer != nullptr ? std::optional(*tokenizer) : std::nullopt);
  std::map<engine::RequestId, RunAnswer> open;
  RunProgress so_far{.cell = cell};
  for (const std::uint32_t problem :
       arrival_order(writer.done().header.cells[cell].seed, writer.done().header.problems.size())) {
    if (writer.done().answers.contains({cell, problem})) {
      ++so_far.answers;
      continue;
    }
    engine::Request asked;
    asked.prompt = request.prompts[problem];
    asked.max_tokens = request.max_tokens;
    asked.sampling = request.sampling;
    asked.stop_tokens = request.stop_tokens;
    asked.logprobs = kCandidates;
    asked.digest = DigestKind::kTree1;
    open.emplace(problem, RunAnswer{.cell = cell, .problem = problem});
    engine.add(problem, std::move(asked));
  }
  if (open.empty()) return;
  const Clock::time_point start = Clock::now();
  while (!engine.idle()) {
    for (engine::RequestUpdate& entry : engine.step()) {
      RunAnswer& answer = open.at(entry.request);
      for (const engine::AnswerToken& token : entry.update.tokens) {
        answer.steps.push_back(step_of(token));
        answer.text += token.text;
        ++so_far.new_tokens;
      }
      if (!entry.update.end) continue;
      const engine::End& end = *entry.update.end;
      if (end.finish_reason == engine::FinishReason::kError)
        fail(ErrorCode::kNonFinite, "problem '{}': {}", writer.done().header.problems[answer.problem].id, end.error);
      answer.text += end.text;
      answer.finish = end.finish_reason;
      answer.digest = end.digest;
      writer.add(answer);
      open.erase(entry.request);
      ++so_far.answers;
    }
    so_far.seconds = seconds_since(start);
    if (progress) progress(so_far);
  }
  writer.add_seconds(cell, seconds_since(start));
}

}  // namespace reprofuse::study
