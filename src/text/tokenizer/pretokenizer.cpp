#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "base/check.hpp"
#include "text/tokenizer/stages.hpp"
#include "text/tokenizer/tokenizer_json.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {
namespace {

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& place) : pattern_(pattern), place_(place) {}

  std::string translate() {
    while (!at_end()) translate_one();
    return std::move(out_);
  }

 private:
  bool at_end() const { return at_ == pattern_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  char take() {
    if (at_end()) reject("it ends too early");
    return pattern_[at_++];
  }
  bool take_if(std::string_view expected) {
    if (!pattern_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  [[noreturn]] void reject(std::string_view why) const {
    fail(ErrorCode::kInvalidArgument, "{}: the pattern '{}' is not supported: {}, at byte {}", place_, pattern_, why,
         at_);
  }

  void translate_one() {
    const char c = take();
    switch (c) {
      case '\\': translate_escape(); return;
      case '[': translate_class(); return;
      case '(': translate_group(); return;
      case '{': translate_brace(); return;
      case '.':
      case '^':
      case '$': reject(fmt::format("'{}' outside brackets", c));
      case ']':
      case '}':
        out_ += '\\';
        out_ += c;
        return;
      default: out_ += c; return;
    }
  }

  void translate_group() {
    if (peek() == '*') reject("'(*'");
    if (peek() != '?') {
      out_ += '(';
      return;
    }
    static constexpr std::array<std::string_view, 7> kKnown = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:"};
    const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](auto prefix) { return take_if(prefix); });
    if (known == kKnown.end()) reject("this kind of group");
    out_ += '(';
    out_ += *known;
  }

  // {n}, {n,}, {,m} and {n,m} repeat; any other brace stands for itself.
  void translate_brace() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view body = end == pattern_.npos ? "" : pattern_.substr(at_, end - at_);
    const std::size_t comma = body.find(',');
    const auto all_digits = [](std::string_view s) { return std::all_of(s.begin(), s.end(), is_digit); };
    const bool repeats =
        comma == body.npos ? !body.empty() && all_digits(body)
                           : body.size() > 1 && all_digits(body.substr(0, comma)) && all_digits(body.substr(comma + 1));
    if (!repeats) {
      out_ += "\\{";
      return;
    }
    at_ = end + 1;
    if (peek() == '+' || peek() == '?' || peek() == '*') reject("'+', '?' or '*' after a repetition in braces");
    out_ += fmt::format("{{{}{}}}", comma == 0 ? "0" : "", body);
  }

  void translate_class() {
    out_ += '[';
    if (take_if("^")) out_ += '^';
    if (peek() == ']') reject("an empty set, or ']' at the start of a set");
    for (char c = take(); c != ']'; c = take()) {
      if (c == '[') reject("'[' inside a set");
      if (c == '&' && peek() == '&') reject("'&&' inside a set");
      if (c == '\\') {
        translate_escape();
      } else {
        out_ += c;
      }
    }
    out_ += ']';
  }

  // Escapes mean the same inside a set and outside; those that do not are not among them.
  void translate_escape() {
    const char c = take();
    switch (c) {
      case 's': out_ += "\\p{White_Space}"; return;
      case 'S': out_ += "\\P{White_Space}"; return;
      case 'd': out_ += "\\p{Nd}"; return;
      case 'D': out_ += "\\P{Nd}"; return;
      case 't': out_ += "\\x{09}"; return;
      case 'n': out_ += "\\x{0A}"; return;
      case 'v': out_ += "\\x{0B}"; return;
      case 'f': out_ += "\\x{0C}"; return;
      case 'r': out_ += "\\x{0D}"; return;
      case 'p':
      case 'P': translate_property(c); return;
      case 'x':
      case 'u': translate_code_point(c); return;
      default: break;
    }
    if (is_ascii_letter(c) || is_digit(c)) reject(fmt::format("'\\{}'", c));
    if (static_cast<unsigned char>(c) < 0x80) out_ += '\\';
    out_ += c;
  }

  // One or two letters name a general category; anything longer is taken for a script, as Oniguruma's \p{Han}.
  void translate_property(char kind) {
    const std::size_t end = pattern_.find('}', at_);
    if (peek() != '{' || end == pattern_.npos) reject("a property without braces");
    const std::string_view name = pattern_.substr(at_ + 1, end - at_ - 1);
    if (name.empty() || !std::all_of(name.begin(), name.end(), [](char c) { return is_ascii_letter(c) || c == '_'; })) {
      reject("this property");
    }
    out_ += fmt::format("\\{}{{{}{}}}", kind, name.size() <= 2 ? "" : "sc:", name);
    at_ = end + 1;
  }

  // \x{H...}, \xHH and \uHHHH.
  void translate_code_point(char kind) {
    const bool braces = kind == 'x' && take_if("{");
    std::size_t length = kind == 'x' ? 2 : 4;
    if (braces) length = std::min(pattern_.find('}', at_), pattern_.size()) - at_;
    const std::string_view digits = pattern_.substr(at_, length);
    if (digits.empty() || digits.size() < length || !std::all_of(digits.begin(), digits.end(), is_hex_digit)) {
      reject("a code point that is not hexadecimal");
    }
    at_ += length;
    if (braces && !take_if("}")) reject("a code point without an end");
    // Two digits name a byte to Oniguruma and a code point to PCRE2; they are the same below 0x80.
    if (kind == 'x' && !braces && digits[0] > '7') reject("a byte above \\x7F");
    out_ += fmt::format("\\x{{{}}}", digits);
  }

  std::string_view pattern_;
  const std::string& place_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string unicode_versions() {
  char of_patterns[64] = {};  // the library says that 24 are enough
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, of_patterns);
  return fmt::format("{} {}", of_patterns, utf8proc_unicode_version());
}

std::string to_pcre2(std::string_view oniguruma, const std::string& place) {
  return Translator(oniguruma, place).translate();
}

namespace {

// A match is first looked for with this much of the text in sight, which bounds what a try at one place may cost. Where
// one runs into the end of the window or the limit on its steps, that place is tried alone with twice of both, which
// counts. Patterns of published tokenizers use up what they look at, and stay below 8 for each byte.
constexpr std::size_t kWindow = 64;
constexpr std::uint64_t kWorkForAnyText = 1'000'000;
constexpr std::uint64_t kWorkForEachByte = 32;
constexpr std::uint32_t kHeapKiB = 64 * 1024;
constexpr std::size_t kMaxPatternBytes = 16384;

std::uint32_t step_limit(std::size_t window) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(100 + 4 * window, std::numeric_limits<std::uint32_t>::max()));
}

bool is_boundary(std::string_view text, std::size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

std::size_t next_boundary(std::string_view text, std::size_t at) {
  while (!is_boundary(text, at)) ++at;
  return std::min(at, text.size());
}

std::string message_of(int code) {
  PCRE2_UCHAR message[256];
  return pcre2_get_error_message(code, message, sizeof message) < 0 ? fmt::format("PCRE2 error {}", code)
                                                                    : reinterpret_cast<const char*>(message);
}

}  // namespace

Pattern::Scratch::Scratch()
    : data_(pcre2_match_data_create(1, nullptr), [](pcre2_match_data* data) { pcre2_match_data_free(data); }),
      limits_(pcre2_match_context_create(nullptr),
              [](pcre2_match_context* limits) { pcre2_match_context_free(limits); }),
      work_left_(kWorkForAnyText) {
  if (!data_ || !limits_) throw std::bad_alloc();
  pcre2_set_heap_limit(limits_.get(), kHeapKiB);
}

// No just-in-time compiler: it passes over the limit on memory, has a stack of its own that a long text can exhaust,
// and needs memory that is both writable and executable.
Pattern::Pattern(std::string_view oniguruma, std::string place) : place_(std::move(place)) {
  require(oniguruma.size() <= kMaxPatternBytes, "{}: a pattern of {} bytes is too long; at most {} are supported",
          place_, oniguruma.size(), kMaxPatternBytes);
  const std::string pattern = to_pcre2(oniguruma, place_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &offset, nullptr);
  require(code != nullptr, "{}: the pattern '{}' is not supported: {}", place_, oniguruma, message_of(error));
  code_ = std::shared_ptr<pcre2_code>(code, [](pcre2_code* c) { pcre2_code_free(c); });
}

std::optional<Pattern::Match> Pattern::find(std::string_view text, std::size_t start, Scratch& scratch) const {
  std::size_t window = kWindow;
  while (start < text.size()) {
    const bool is_alone = window > kWindow;  // only matches that begin at `start`
    const std::size_t end = next_boundary(text, start + std::min(window, text.size() - start));
    const bool is_cut = end < text.size();
    // The caller has checked the text; PCRE2 would check all of it again for each match. With a hard partial match
    // it says at once when it would have to see what comes after the window.
    const std::uint32_t options = PCRE2_NO_UTF_CHECK | (is_cut ? PCRE2_PARTIAL_HARD : 0U) |
                                  (is_alone ? static_cast<std::uint32_t>(PCRE2_ANCHORED) : 0U);
    pcre2_set_match_limit(scratch.limits_.get(), step_limit(window));
    const int result = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), end, start, options,
                                   scratch.data_.get(), scratch.limits_.get());
    const PCRE2_SIZE* match = pcre2_get_ovector_pointer(scratch.data_.get());
    if (result >= 0 && (match[0] < end || !is_cut)) return Match{match[0], match[1]};
    if (result >= 0 || result == PCRE2_ERROR_NOMATCH) {
      start = is_alone ? next_boundary(text, start + 1) : end;
      window = kWindow;
      continue;
    }
    require(result == PCRE2_ERROR_PARTIAL || result == PCRE2_ERROR_MATCHLIMIT,
            "{}: the pattern fails on a text of {} bytes: {}", place_, text.size(), message_of(result));
    if (result == PCRE2_ERROR_PARTIAL && !is_alone) start = match[0];
    window *= 2;
    require(scratch.work_left_ >= window,
            "{}: the pattern fails on a text of {} bytes: it takes more steps than the {} for each byte that it may",
            place_, text.size(), kWorkForEachByte);
    scratch.work_left_ -= window;
  }
  return std::nullopt;
}

void Pattern::split(std::string_view text, Scratch& scratch, const PieceVisitor& visit) const {
  scratch.work_left_ += kWorkForEachByte * text.size();
  std::size_t end_of_last = 0;
  const auto end_part = [&](std::size_t end) {
    if (end > end_of_last) visit(text.substr(end_of_last, end - end_of_last));
    end_of_last = std::max(end_of_last, end);
  };
  for (std::size_t start = 0; start < text.size();) {
    const std::optional<Match> match = find(text, start, scratch);
    if (!match) break;
    end_part(match->begin);
    end_part(match->end);
    // An empty match cuts, too; the search goes on after the next character.
    start = match->end > match->begin ? match->end : next_boundary(text, match->end + 1);
  }
  end_part(text.size());
}

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
