#include "text/tokenizer/pretokenizer.hpp"

namespace reprofuse::text {
namespace {

// GPT-2's, which "ByteLevel" means unless use_regex is false.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

template <typename Visit>
void for_each_piece(const Pieces& pieces, Visit visit) {
  std::size_t begin = 0;
  for (const std::size_t end : pieces.ends) {
    visit(std::string_view(pieces.text).substr(begin, end - begin), begin);
    begin = end;
  }
}

Pieces with_prefix_spaces(const Pieces& pieces) {
  Pieces spaced;
  spaced.text.reserve(pieces.text.size() + pieces.ends.size());
  for_each_piece(pieces, [&](std::string_view piece, std::size_t) {
    if (!piece.starts_with(' ')) spaced.text += ' ';
    spaced.text += piece;
    spaced.ends.push_back(spaced.text.size());
  });
  return spaced;
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonNode& pre_tokenizer) {
  for (const JsonNode& step : pre_tokenizer.steps("pretokenizers")) add_step(step);
  if (!complete_) pre_tokenizer.reject("is not supported: it must be 'ByteLevel', or a 'Sequence' that ends in it");
}

void PreTokenizer::add_step(const JsonNode& step) {
  if (complete_) step.reject("is not supported after 'ByteLevel'");
  const JsonNode type = step.node("type");
  if (type.string() == "Split") {
    step.require_keys_among({"type", "pattern", "behavior", "invert"});
    const JsonNode pattern = step.node("pattern");
    pattern.require_keys_among({"Regex"});
    const JsonNode behavior = step.node("behavior");
    if (behavior.string() != "Isolated") behavior.reject("is not supported; only 'Isolated' is");
    if (const JsonNode invert = step.node("invert"); invert.boolean()) invert.reject("is not supported; only false is");
    const JsonNode regex = pattern.node("Regex");
    patterns_.emplace_back(regex.string(), regex.place());
  } else if (type.string() == "Digits") {
    step.require_keys_among({"type", "individual_digits"});
    patterns_.emplace_back(step.node("individual_digits").boolean() ? R"(\p{N})" : R"(\p{N}+)", step.place());
  } else if (type.string() == "ByteLevel") {
    add_byte_level(step);
  } else {
    type.reject("is not supported; 'Split', 'Digits', 'ByteLevel' and 'Sequence' are");
  }
}

void PreTokenizer::add_byte_level(const JsonNode& step) {
  step.require_keys_among({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  step.boolean_or("trim_offsets", true);  // concerns offsets into the text, which are not computed here
  add_prefix_space_ = step.node("add_prefix_space").boolean();
  prefix_step_ = patterns_.size();
  if (step.boolean_or("use_regex", true)) patterns_.emplace_back(kByteLevelPattern, step.place());
  complete_ = true;
}

Pieces PreTokenizer::split(std::string_view text) const {
  Pieces pieces{std::string(text), {}};
  if (text.empty()) return pieces;
  pieces.ends.push_back(text.size());
  Pattern::Scratch scratch;
  for (std::size_t step = 0; step <= patterns_.size(); ++step) {
    if (add_prefix_space_ && step == prefix_step_) pieces = with_prefix_spaces(pieces);
    if (step == patterns_.size()) break;
    std::vector<std::size_t> ends;
    for_each_piece(
        pieces, [&](std::string_view piece, std::size_t begin) { patterns_[step].split(piece, begin, scratch, ends); });
    pieces.ends = std::move(ends);
  }
  return pieces;
}

}  // namespace reprofuse::text
