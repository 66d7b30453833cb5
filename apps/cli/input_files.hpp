// What commands read beside a model: files, standard input, and lists of token ids.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprofuse::cli {

std::string read_file(const std::string& path);   // throws kInvalidArgument
std::string read_input(const std::string& path);  // the same; "-" is stdin

// Text that somebody typed into a file or a pipe: without the end of its last line. An empty one is an error.
std::string read_prompt_file(const std::string& path);

// Ids between commas or white space, perhaps in brackets, as jq prints a list. Throws kInvalidArgument.
std::vector<std::int32_t> parse_token_ids(std::string_view text);

// --prompt-tokens: the ids, @FILE, or - for stdin. What the command line itself holds is checked as it is read.
void add_prompt_tokens_option(CLI::App& command, std::optional<std::string>& argument, const std::string& about);
std::vector<std::int32_t> read_prompt_tokens(const std::string& argument);

// The lines of a file or of a pipe, as they come. Lines of nothing but white space are counted and left out.
class LineReader {
 public:
  explicit LineReader(const std::string& path);  // "-" is stdin
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line. None: there is no whole one yet, which it waits for if told to, or the file has ended.
  std::optional<std::string> next(bool wait);
  std::int64_t number() const { return number_; }  // of the line that came last, from 1
  std::string place() const;                       // "prompts.jsonl, line 3"

 private:
  std::optional<std::string> take_line();
  bool read_more(bool wait);

  std::string name_;
  int descriptor_;
  bool ended_ = false;
  std::string rest_;          // what was read and is in no line yet
  std::size_t searched_ = 0;  // of it, the bytes without a line feed
  std::int64_t number_ = 0;
};

}  // namespace reprofuse::cli
