// The text of an answer as its tokens come, and where a stop string ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse::engine {

class AnswerText {
 public:
  // Without a tokenizer there is no text.
  AnswerText(const std::optional<Tokenizer>& tokenizer, std::vector<std::string> stop_strings, bool keep_stop_string,
             bool skip_special_tokens);

  // What the token adds to the text, less what may turn out to be the start of a stop string. A stop string that the
  // token completes ends the text before it (or after it, when it is kept); of several, the one that starts first.
  std::string push(std::int32_t token);
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

  // What was held back, once it is certain that no token follows.
  std::string flush();

 private:
  bool find_stop_string();
  std::size_t certain() const;  // bytes of held_ that no stop string can start in

  std::optional<text::StreamDetokenizer> detokenizer_;
  std::vector<std::string> stop_strings_;
  bool keep_stop_string_;
  std::string held_;
  std::optional<std::string> stopped_by_;
};

}  // namespace reprofuse::engine
