// Cutting text into the pieces that are encoded one by one, by the regular expressions of tokenizer.json, which are
// Oniguruma's, run by PCRE2 in bounded time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;

namespace reprofuse::text {

class JsonNode;  // tokenizer_json.hpp

// Rewrites a pattern of Oniguruma's Ruby syntax, in which tokenizer.json is written, into one that PCRE2 understands
// the same way: \s becomes the property White_Space (PCRE2's own \s has U+180E too), \p{Han} the script and not its
// extensions. Knows what tokenizers use; for anything else it fails and says what. place is for the message.
std::string to_pcre2(std::string_view oniguruma, const std::string& place);

// Takes one part of a text after the other, none of them empty.
using PieceVisitor = std::function<void(std::string_view piece)>;

// What is a letter or a number is for the Unicode version of the linked PCRE2 to say: version 14 for PCRE2 10.42.
class Pattern {
 public:
  // What matching needs to write to, and how much work is left: one for each text, for any number of patterns.
  class Scratch {
   public:
    Scratch();

   private:
    friend class Pattern;
    std::unique_ptr<pcre2_real_match_data_8, void (*)(pcre2_real_match_data_8*)> data_;
    std::unique_ptr<pcre2_real_match_context_8, void (*)(pcre2_real_match_context_8*)> limits_;
    std::uint64_t work_left_;
  };

  Pattern(std::string_view oniguruma, std::string place);

  // Cuts well-formed UTF-8 into matches and what lies between them. Time is linear in the text: fails when the pattern
  // takes more steps or memory than matching so much text can need.
  void split(std::string_view text, Scratch& scratch, const PieceVisitor& visit) const;

 private:
  struct Match {
    std::size_t begin, end;
  };

  // The first match that begins at `start` or after it.
  std::optional<Match> find(std::string_view text, std::size_t start, Scratch& scratch) const;

  std::string place_;
  std::shared_ptr<pcre2_real_code_8> code_;  // never written to once compiled
};

// Of "pre_tokenizer" in tokenizer.json: "ByteLevel", or a "Sequence" of "Split" and "Digits" that ends in "ByteLevel".
class PreTokenizer {
 public:
  explicit PreTokenizer(const JsonNode& pre_tokenizer);

  // Of well-formed UTF-8: each piece as soon as it is known.
  void split(std::string_view text, Pattern::Scratch& scratch, const PieceVisitor& visit) const;

 private:
  void add_step(const JsonNode& step);
  void add_byte_level(const JsonNode& step);
  void split_from(std::size_t step, std::string_view text, Pattern::Scratch& scratch, const PieceVisitor& visit) const;

  std::vector<Pattern> patterns_;  // each cuts the pieces of the one before
  std::size_t prefix_step_ = 0;    // before which pattern each piece gets its space, where it has none
  bool add_prefix_space_ = false;
  bool complete_ = false;  // "ByteLevel" has been read, after which nothing may come
};

}  // namespace reprofuse::text
