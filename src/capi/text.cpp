// Tokenizers and chat templates.
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

const reprofuse::Tokenizer& unwrap_tokenizer(const reprofuse_tokenizer* tokenizer) {
  return unwrap(tokenizer, "tokenizer").tokenizer;
}

}  // namespace

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
    const auto bytes = list(text, text_bytes, "bytes of the text");
    give_tokens(unwrap_tokenizer(tokenizer).encode({bytes.data(), bytes.size()}, add_special_tokens != 0), tokens,
                count);
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
  return guarded([&] {
    require(size != nullptr, "the pointer that receives the size is null");
    *size = static_cast<int64_t>(unwrap_tokenizer(tokenizer).vocab_size());
  });
}

reprofuse_status reprofuse_tokenizer_token_id(const reprofuse_tokenizer* tokenizer, const char* spelling, int32_t* id) {
  return guarded([&] {
    require(id != nullptr, "the pointer that receives the id is null");
    *id = unwrap_tokenizer(tokenizer).token_id(required_text(spelling, "spelling")).value_or(-1);
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
