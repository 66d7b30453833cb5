#include "reprofuse/tokenizer.hpp"

#include <algorithm>
#include <span>
#include <system_error>
#include <utility>

#include "base/check.hpp"
#include "base/files.hpp"
#include "text/tokenizer/tokenizer_json.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {

namespace {

constexpr std::size_t kMaxFileBytes = 128U << 20;          // published ones have up to 40 MiB
constexpr std::size_t kPollBytes = std::size_t{64} << 10;  // of text, between two calls

// One text on its way to tokens.
class Encoding {
 public:
  Encoding(const TokenizerParts& parts, const EncodeOptions& options) : parts_(parts), options_(options) {}

  // Nothing when there are more tokens than allowed.
  std::optional<std::vector<std::int32_t>> run(std::string_view utf8) {
    try {
      if (options_.add_special_tokens) append(parts_.before);
      parts_.verbatim.split(utf8, options_.plain, [&](const Segment& segment) {
        if (segment.id) return append({&*segment.id, 1});
        encode_between(segment.text, static_cast<std::size_t>(segment.text.data() - utf8.data()));
      });
      if (options_.add_special_tokens) append(parts_.after);
    } catch (const TooMany&) {
      return std::nullopt;
    }
    return std::move(ids_);
  }

 private:
  struct TooMany {};

  void require_room(std::size_t tokens) const {
    if (tokens > options_.max_tokens || ids_.size() > options_.max_tokens - tokens) throw TooMany();
  }

  void append(std::span<const std::int32_t> ids) {
    require_room(ids.size());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  void poll(std::size_t bytes) {
    since_poll_ += bytes;
    if (since_poll_ < kPollBytes || !options_.poll) return;
    since_poll_ = 0;
    options_.poll();
  }

  // Text in which no added token of the first kind stands, which begins at `place`.
  void encode_between(std::string_view text, std::size_t place) {
    if (!parts_.normalize_nfc) return encode_normalized(text, plain_within(place, text.size()));
    const std::string normalized = normalize_nfc(text, options_.poll);
    const std::vector<TextSpan> plain = plain_within(place, text.size());
    require(plain.empty() || normalized == text || !parts_.normalized.finds_more_than_white_space(),
            "{}: added_tokens has tokens to be found in normalized text, and this text is not: it cannot be told which "
            "of it is plain",
            parts_.name);
    encode_normalized(normalized, plain);
  }

  void encode_normalized(std::string_view text, const std::vector<TextSpan>& plain) {
    parts_.normalized.split(text, plain, [&](const Segment& segment) {
      if (segment.id) return append({&*segment.id, 1});
      require_room(parts_.bpe.fewest_tokens(segment.text));
      parts_.pre_tokenizer.split(segment.text, scratch_, [&](std::string_view piece) { encode_piece(piece); });
    });
  }

  void encode_piece(std::string_view piece) {
    poll(piece.size());
    require_room(parts_.bpe.fewest_tokens(piece));
    const std::size_t first = ids_.size();
    parts_.bpe.encode(piece, ids_, options_.poll);
    require_room(0);
    if (options_.plain.empty()) return;
    for (std::size_t i = first; i < ids_.size(); ++i)
      require(!parts_.tokens[ids_[i]].is_control, "{}: plain text would become the added token {}", parts_.name,
              ids_[i]);
  }

  // The plain parts that lie in a part of the text, counted from its begin.
  std::vector<TextSpan> plain_within(std::size_t begin, std::size_t size) const {
    std::vector<TextSpan> within;
    const auto ends_before = [](const TextSpan& span, std::size_t at) { return span.end <= at; };
    auto span = std::lower_bound(options_.plain.begin(), options_.plain.end(), begin, ends_before);
    for (; span != options_.plain.end() && span->begin < begin + size; ++span)
      within.push_back({std::max(span->begin, begin) - begin, std::min(span->end, begin + size) - begin});
    return within;
  }

  const TokenizerParts& parts_;
  const EncodeOptions& options_;
  Pattern::Scratch scratch_;
  std::vector<std::int32_t> ids_;
  std::size_t since_poll_ = 0;
};

bool has_token_in(const TokenizerParts& parts, std::int32_t id) {
  return id >= 0 && static_cast<std::size_t>(id) < parts.tokens.size() && !parts.tokens[id].bytes.empty();
}

const Token& token_of(const TokenizerParts& parts, std::int32_t id) {
  require(has_token_in(parts, id), "{}: no token has the id {}", parts.name, id);
  return parts.tokens[id];
}

}  // namespace

}  // namespace reprofuse::text

namespace reprofuse {

Tokenizer::Tokenizer(std::shared_ptr<const text::TokenizerParts> parts) : parts_(std::move(parts)) {}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& name) {
  return Tokenizer(std::make_shared<const text::TokenizerParts>(text::read_tokenizer(json, name)));
}

Tokenizer Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  const std::string name = tokenizer_json.string();
  std::error_code error;
  require(std::filesystem::exists(tokenizer_json, error), "{}: there is no such file", name);
  require(std::filesystem::is_regular_file(tokenizer_json, error), "{}: is not a regular file", name);
  const SourceFile file(name);
  require(file.size() <= text::kMaxFileBytes, "{}: {} bytes, more than the {} that such a file may have", name,
          file.size(), text::kMaxFileBytes);
  std::string json(file.size(), '\0');
  file.read_into(std::as_writable_bytes(std::span(json)), 0);
  return from_json(json, name);
}

bool Tokenizer::has_token(std::int32_t id) const {
  return text::has_token_in(*parts_, id);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, bool add_special_tokens) const {
  EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  return *encode_within(utf8, options);
}

std::optional<std::vector<std::int32_t>> Tokenizer::encode_within(std::string_view utf8,
                                                                  const EncodeOptions& options) const {
  const auto invalid = text::find_invalid_utf8(utf8);
  require(!invalid, "the text is not well-formed UTF-8 at byte {} of {}", invalid.value_or(0), utf8.size());
  std::size_t last = 0;
  for (const TextSpan& span : options.plain) {
    require(span.begin >= last && span.end >= span.begin && span.end <= utf8.size(),
            "a plain part from byte {} to {} of a text of {} is before another or outside of it", span.begin, span.end,
            utf8.size());
    last = span.end;
  }
  return text::Encoding(*parts_, options).run(utf8);
}

std::vector<TextSpan> Tokenizer::added_tokens_in(std::string_view utf8) const {
  const auto invalid = text::find_invalid_utf8(utf8);
  require(!invalid, "the text is not well-formed UTF-8 at byte {} of {}", invalid.value_or(0), utf8.size());
  std::vector<TextSpan> spans;
  const auto visit_token = [&](const text::Segment& segment) {
    const text::Token& token = parts_->tokens[*segment.id];
    const std::size_t within = segment.text.find(token.bytes);  // it may have swallowed white space
    if (!token.is_control || within == std::string_view::npos) return;
    const auto begin = static_cast<std::size_t>(segment.text.data() - utf8.data()) + within;
    spans.push_back({begin, begin + token.bytes.size()});
  };
  parts_->verbatim.split(utf8, {}, [&](const text::Segment& outer) {
    if (outer.id) return visit_token(outer);
    parts_->normalized.split(outer.text, {}, [&](const text::Segment& segment) {
      if (segment.id) visit_token(segment);
    });
  });
  return spans;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    const text::Token& token = text::token_of(*parts_, id);
    if (!token.special || !skip_special_tokens) bytes += token.bytes;
  }
  return text::utf8_replacing(bytes);
}

std::size_t Tokenizer::vocab_size() const {
  return parts_->tokens.size();
}

std::optional<std::int32_t> Tokenizer::token_id(std::string_view spelling) const {
  for (const text::Vocabulary* vocabulary : {&parts_->added_ids, &parts_->bpe.vocabulary()}) {
    if (const auto found = vocabulary->find(spelling); found != vocabulary->end()) return found->second;
  }
  return std::nullopt;
}

const std::string& Tokenizer::token_bytes(std::int32_t id) const {
  return text::token_of(*parts_, id).bytes;
}

bool Tokenizer::is_special(std::int32_t id) const {
  return text::token_of(*parts_, id).special;
}

bool Tokenizer::has_template() const {
  return parts_->has_template;
}

}  // namespace reprofuse
