// Tokenizers and chat templates.
#include <cstddef>
#include <cstdint>
#include <string>

#include "capi/boundary.hpp"

using reprofuse::require;
using namespace reprofuse::capi;

struct reprofuse_detokenizer {
  reprofuse::StreamDetokenizer detokenizer;
  std::string latest;

  void tell(std::string text, const char** to, size_t* bytes) {
    require(to != nullptr && bytes != nullptr, "a pointer that receives the text is null");
    latest = std::move(text);
    *to = latest.c_str();
    *bytes = latest.size();
  }
};

namespace {

std::string_view text_of(const char* text, size_t bytes) {
  const auto given = list(text, bytes, "bytes of the text");
  return {given.data(), given.size()};
}

std::span<const reprofuse::TextSpan> plain_parts(const reprofuse_encode_options& options, size_t text_bytes) {
  const auto spans = list(options.plain, options.plain_count, "plain parts");
  size_t from = 0;
  for (const reprofuse_text_span& span : spans) {
    require(span.begin >= from && span.begin <= span.end && span.end <= text_bytes,
            "bytes {} to {} are no plain part of {} bytes of which {} are behind", span.begin, span.end, text_bytes,
            from);
    from = span.end;
  }
  return {reinterpret_cast<const reprofuse::TextSpan*>(spans.data()), spans.size()};
}

struct EndedByPoll {};

const reprofuse::Tokenizer& unwrap_tokenizer(const reprofuse_tokenizer* tokenizer) {
  return unwrap(tokenizer, "tokenizer").tokenizer;
}

}  // namespace

static_assert(sizeof(reprofuse_text_span) == sizeof(reprofuse::TextSpan) &&
              offsetof(reprofuse_text_span, end) == offsetof(reprofuse::TextSpan, end));

namespace reprofuse::capi {

ChatOptions chat_options(const reprofuse_chat_options* options) {
  ChatOptions made;
  if (options == nullptr) return made;
  const reprofuse_chat_options given = read_struct(options, "struct of chat options");
  made.add_generation_prompt = given.add_generation_prompt != 0;
  made.date = text_or(given.date, made.date);
  made.tools_json = text_or(given.tools_json, "");
  made.variables_json = text_or(given.variables_json, "");
  return made;
}

}  // namespace reprofuse::capi

reprofuse_status reprofuse_tokenizer_load(const char* path, reprofuse_tokenizer** tokenizer) {
  return create(tokenizer, "tokenizer",
                [&] { return new reprofuse_tokenizer{reprofuse::Tokenizer::load(required_text(path, "path"))}; });
}

void reprofuse_tokenizer_destroy(reprofuse_tokenizer* tokenizer) {
  delete tokenizer;
}

reprofuse_status reprofuse_tokenizer_encode(const reprofuse_tokenizer* tokenizer, const char* text, size_t text_bytes,
                                            int add_special_tokens, int32_t** tokens, size_t* count) {
  return guarded([&] {
    give_tokens(unwrap_tokenizer(tokenizer).encode(text_of(text, text_bytes), add_special_tokens != 0), tokens, count);
  });
}

reprofuse_status reprofuse_encode_options_init(reprofuse_encode_options* options, size_t size) {
  return guarded(
      [&] { init_struct(options, size, "struct of encode options", [](auto& made) { made.max_tokens = SIZE_MAX; }); });
}

reprofuse_status reprofuse_tokenizer_encode_within(const reprofuse_tokenizer* tokenizer, const char* text,
                                                   size_t text_bytes, const reprofuse_encode_options* options,
                                                   int32_t** tokens, size_t* count) {
  return guarded([&] {
    reprofuse::EncodeOptions made;
    if (options != nullptr) {
      const reprofuse_encode_options given = read_struct(options, "struct of encode options");
      made.add_special_tokens = given.add_special_tokens != 0;
      made.max_tokens = given.max_tokens;
      made.plain = plain_parts(given, text_bytes);
      if (given.poll != nullptr)
        made.poll = [poll = given.poll, user = given.user] {
          if (poll(user) != 0) throw EndedByPoll();
        };
    }
    receiver(tokens, "tokens") = nullptr;
    receiver(count, "number of tokens") = 0;
    try {
      if (const auto encoded = unwrap_tokenizer(tokenizer).encode_within(text_of(text, text_bytes), made))
        give_tokens(*encoded, tokens, count);
    } catch (const EndedByPoll&) {  // *tokens is null
    }
  });
}

reprofuse_status reprofuse_tokenizer_added_tokens_in(const reprofuse_tokenizer* tokenizer, const char* text,
                                                     size_t text_bytes, reprofuse_text_span** spans, size_t* count) {
  return guarded([&] {
    reprofuse_text_span*& to = receiver(spans, "spans");
    size_t& number = receiver(count, "number of spans");
    const auto found = unwrap_tokenizer(tokenizer).added_tokens_in(text_of(text, text_bytes));
    to = static_cast<reprofuse_text_span*>(give_copy(found.data(), found.size() * sizeof(reprofuse_text_span)));
    number = found.size();
  });
}

reprofuse_status reprofuse_tokenizer_decode(const reprofuse_tokenizer* tokenizer, const int32_t* tokens, size_t count,
                                            int skip_special_tokens, char** text, size_t* text_bytes) {
  return guarded([&] {
    give_text(unwrap_tokenizer(tokenizer).decode(list(tokens, count, "tokens"), skip_special_tokens != 0), text,
              text_bytes);
  });
}

reprofuse_status reprofuse_tokenizer_vocab_size(const reprofuse_tokenizer* tokenizer, int64_t* size) {
  return guarded([&] { receiver(size, "size") = static_cast<int64_t>(unwrap_tokenizer(tokenizer).vocab_size()); });
}

reprofuse_status reprofuse_tokenizer_token_id(const reprofuse_tokenizer* tokenizer, const char* spelling, int32_t* id) {
  return guarded([&] {
    receiver(id, "id") = unwrap_tokenizer(tokenizer).token_id(required_text(spelling, "spelling")).value_or(-1);
  });
}

reprofuse_status reprofuse_tokenizer_token_bytes(const reprofuse_tokenizer* tokenizer, int32_t id, const char** bytes,
                                                 size_t* count, int* special) {
  return guarded([&] {
    require(bytes != nullptr && count != nullptr, "a pointer that receives the bytes is null");
    const reprofuse::Tokenizer& self = unwrap_tokenizer(tokenizer);
    const std::string& token = self.token_bytes(id);
    if (special != nullptr) *special = self.is_special(id) ? 1 : 0;
    *bytes = token.data();
    *count = token.size();
  });
}

reprofuse_status reprofuse_detokenizer_create(const reprofuse_tokenizer* tokenizer, int skip_special_tokens,
                                              reprofuse_detokenizer** detokenizer) {
  return create(detokenizer, "detokenizer", [&] {
    return new reprofuse_detokenizer{
        reprofuse::StreamDetokenizer(unwrap_tokenizer(tokenizer), skip_special_tokens != 0), {}};
  });
}

void reprofuse_detokenizer_destroy(reprofuse_detokenizer* detokenizer) {
  delete detokenizer;
}

reprofuse_status reprofuse_detokenizer_push(reprofuse_detokenizer* detokenizer, int32_t token, const char** text,
                                            size_t* text_bytes) {
  return guarded([&] {
    reprofuse_detokenizer& self = unwrap(detokenizer, "detokenizer");
    self.tell(self.detokenizer.push(token), text, text_bytes);
  });
}

reprofuse_status reprofuse_detokenizer_flush(reprofuse_detokenizer* detokenizer, const char** text,
                                             size_t* text_bytes) {
  return guarded([&] {
    reprofuse_detokenizer& self = unwrap(detokenizer, "detokenizer");
    self.tell(self.detokenizer.flush(), text, text_bytes);
  });
}

reprofuse_status reprofuse_chat_options_init(reprofuse_chat_options* options, size_t size) {
  return guarded([&] {
    init_struct(options, size, "struct of chat options", [](auto& made) { made.add_generation_prompt = 1; });
  });
}

reprofuse_status reprofuse_chat_template_create(const char* source, const char* name, const char* special_tokens_json,
                                                reprofuse_chat_template** chat_template) {
  return create(chat_template, "chat template", [&] {
    return new reprofuse_chat_template{reprofuse::ChatTemplate(required_text(source, "template"),
                                                               std::string(text_or(name, "chat template")),
                                                               text_or(special_tokens_json, "{}"))};
  });
}

void reprofuse_chat_template_destroy(reprofuse_chat_template* chat_template) {
  delete chat_template;
}

reprofuse_status reprofuse_chat_template_render(const reprofuse_chat_template* chat_template, const char* messages_json,
                                                const reprofuse_chat_options* options, char** text,
                                                size_t* text_bytes) {
  return guarded([&] {
    const auto& self = unwrap(chat_template, "chat template").chat_template;
    give_text(self.render_json(required_text(messages_json, "list of messages"), chat_options(options)), text,
              text_bytes);
  });
}
