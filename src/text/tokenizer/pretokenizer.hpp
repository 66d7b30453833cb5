// Cutting text into the pieces that are encoded one by one.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "text/tokenizer/pattern.hpp"
#include "text/tokenizer/tokenizer_json.hpp"

namespace reprofuse::text {

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
