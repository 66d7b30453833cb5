#include "text/tokenizer/pretokenizer.hpp"

#include "base/check.hpp"

namespace reprofuse::text {
namespace {

// GPT-2's, which "ByteLevel" means unless use_regex is false.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

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

void PreTokenizer::split(std::string_view text, Pattern::Scratch& scratch, const PieceVisitor& visit) const {
  if (!text.empty()) split_from(0, text, scratch, visit);
}

void PreTokenizer::split_from(std::size_t step, std::string_view text, Pattern::Scratch& scratch,
                              const PieceVisitor& visit) const {
  std::string spaced;
  if (add_prefix_space_ && step == prefix_step_ && !text.starts_with(' ')) {
    spaced = " " + std::string(text);
    text = spaced;
  }
  if (step == patterns_.size()) return visit(text);
  patterns_[step].split(text, scratch, [&](std::string_view piece) { split_from(step + 1, piece, scratch, visit); });
}

}  // namespace reprofuse::text
