#include "cli/input_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

#include "base/check.hpp"
#include "cli/option_values.hpp"
#include "cli/usage.hpp"

namespace reprofuse::cli {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

std::string name_of(const std::string& path) {
  return path == "-" ? "stdin" : path;
}

// Where --prompt-tokens says that the ids are; none: they are the argument itself.
std::optional<std::string> file_of(const std::string& argument) {
  if (argument == "-") return argument;
  if (argument.rfind('@', 0) == 0) return argument.substr(1);
  return std::nullopt;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::error_code error;
  require(!std::filesystem::is_directory(path, error), "{}: cannot be read: is a folder", path);
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read: {}", path, std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  require(!file.bad(), "{}: cannot be read: {}", path, std::strerror(errno));
  return text;
}

std::string read_input(const std::string& path) {
  if (path != "-") return read_file(path);
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  require(!std::cin.bad() && std::ferror(stdin) == 0, "stdin cannot be read");
  return text;
}

std::string read_prompt_file(const std::string& path) {
  std::string prompt = read_input(path);
  if (!prompt.empty() && prompt.back() == '\n') prompt.pop_back();
  require(!prompt.empty(), "there is no prompt {} {}", path == "-" ? "on" : "in", name_of(path));
  return prompt;
}

std::vector<std::int32_t> parse_token_ids(std::string_view text) {
  const auto skip_space = [&] { text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size())); };
  skip_space();
  const bool in_brackets = text.rfind('[', 0) == 0;
  if (in_brackets) {
    text.remove_prefix(1);
    const std::size_t last = text.find_last_not_of(kSpace);
    require(last != std::string_view::npos && text[last] == ']', "the list of token ids has no end: ']' is missing");
    text = text.substr(0, last);
    skip_space();
  }
  std::vector<std::int32_t> ids;
  require(!text.empty(), "there are no token ids");
  while (!text.empty()) {
    const std::string_view id = text.substr(0, std::min(text.find_first_of(", \t\r\n"), text.size()));
    const char* end = id.data() + id.size();
    const auto [stop, error] = std::from_chars(id.data(), end, ids.emplace_back());
    require(error == std::errc() && stop == end && ids.back() >= 0,
            "'{}', number {} of the list, is not a token id: a whole number from 0 to {}", id.substr(0, 32), ids.size(),
            INT32_MAX);
    text.remove_prefix(id.size());
    skip_space();
    if (text.rfind(',', 0) != 0) continue;
    text.remove_prefix(1);
    skip_space();
    require(!text.empty(), "the list of token ids ends with a comma");
  }
  return ids;
}

void add_prompt_tokens_option(CLI::App& command, std::optional<std::string>& argument, const std::string& about) {
  const auto check = [](const std::string& text) -> std::string {
    if (const auto file = file_of(text)) return file->empty() ? "'@' names no file" : "";
    try {
      parse_token_ids(text);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  command
      .add_option("--prompt-tokens", argument,
                  about + " as token ids, between commas; @FILE reads them from a file, - from stdin")
      ->check(CLI::Validator(check, ""))
      ->type_name("IDS");
}

std::vector<std::int32_t> read_prompt_tokens(const std::string& argument) {
  const std::optional<std::string> file = file_of(argument);
  if (!file) return parse_token_ids(argument);
  const std::string text = read_input(*file);
  try {
    return parse_token_ids(text);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name_of(*file), error.what());
  }
}

LineReader::LineReader(const std::string& path)
    : name_(name_of(path)), descriptor_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  require(descriptor_ >= 0, "{}: cannot be read: {}", path, std::strerror(errno));
}

LineReader::~LineReader() {
  if (descriptor_ != STDIN_FILENO) close(descriptor_);
}

std::string LineReader::place() const {
  return fmt::format("{}, line {}", name_, number_);
}

std::optional<std::string> LineReader::next(bool wait) {
  while (true) {
    std::optional<std::string> line = take_line();
    if (line && !is_blank(*line)) return line;
    if (!line && !read_more(wait)) return std::nullopt;
  }
}

std::optional<std::string> LineReader::take_line() {
  std::size_t end = rest_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = rest_.size();
    if (!ended_ || rest_.empty()) return std::nullopt;
    end = rest_.size();  // the last line may lack its end
  }
  std::string line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  searched_ = 0;
  ++number_;
  return line;
}

// False: nothing came, since nothing is there yet or nothing will.
bool LineReader::read_more(bool wait) {
  if (ended_) return false;
  pollfd ready{.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (!wait && poll(&ready, 1, 0) <= 0) return false;
  std::array<char, 1 << 16> bytes;
  ssize_t count = 0;
  do count = read(descriptor_, bytes.data(), bytes.size());
  while (count < 0 && errno == EINTR);
  require(count >= 0, "{}: cannot be read: {}", name_, std::strerror(errno));
  ended_ = count == 0;
  rest_.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

}  // namespace reprofuse::cli
