#include "study/runs/task.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/check.hpp"
#include "base/json.hpp"

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

}  // namespace reprofuse::study
