/* Text in and out of a model: tokenizers and chat templates. Include reprofuse/reprofuse.h. */
#ifndef REPROFUSE_C_TEXT_H_
#define REPROFUSE_C_TEXT_H_

#include "reprofuse/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Byte-level BPE, as the tokenizer.json of a checkpoint says. */
typedef struct reprofuse_tokenizer reprofuse_tokenizer;

/* path: of a tokenizer.json. REPROFUSE_UNSUPPORTED in builds without a tokenizer. */
REPROFUSE_C_API reprofuse_status reprofuse_tokenizer_load(const char* path, reprofuse_tokenizer** tokenizer);
REPROFUSE_C_API void reprofuse_tokenizer_destroy(reprofuse_tokenizer* tokenizer);

/* Added tokens are found in the text first, special ones included. add_special_tokens: put the tokens around it that
 * tokenizer.json names, such as <|begin_of_text|>. *tokens goes back with reprofuse_free(). */
REPROFUSE_C_API reprofuse_status reprofuse_tokenizer_encode(const reprofuse_tokenizer* tokenizer, const char* text,
                                                            size_t text_bytes, int add_special_tokens, int32_t** tokens,
                                                            size_t* count);

/* A part of a text, in bytes. */
typedef struct reprofuse_text_span {
  size_t begin;
  size_t end;
} reprofuse_text_span;

typedef struct reprofuse_encode_options {
  uint32_t struct_size;
  uint32_t struct_version;
  int32_t add_special_tokens; /* 0 */
  size_t max_tokens;          /* SIZE_MAX: no limit */
  int (*poll)(void* user);    /* called now and then: what is not 0 ends encoding; may be NULL */
  void* user;                 /* what poll is given */
  /* Parts in which no added token is found, ascending and apart: what a user wrote, say, so that it cannot forge a turn
   * of a chat. Added tokens of nothing but white space are found there, too; they are how a text is written. */
  const reprofuse_text_span* plain;
  size_t plain_count;
} reprofuse_encode_options;

REPROFUSE_C_API reprofuse_status reprofuse_encode_options_init(reprofuse_encode_options* options, size_t size);

/* The same within limits; options: NULL for the defaults. *tokens is NULL where there are more than max_tokens, or poll
 * ended it: encoding stops as soon as that is certain, in memory for about so many. REPROFUSE_INVALID_ARGUMENT where
 * plain text cannot be told from an added token. */
REPROFUSE_C_API reprofuse_status reprofuse_tokenizer_encode_within(const reprofuse_tokenizer* tokenizer,
                                                                   const char* text, size_t text_bytes,
                                                                   const reprofuse_encode_options* options,
                                                                   int32_t** tokens, size_t* count);

/* Where a text spells added tokens that are more than white space, ascending: what `plain` would keep from being
 * tokens. *spans goes back with reprofuse_free(). */
REPROFUSE_C_API reprofuse_status reprofuse_tokenizer_added_tokens_in(const reprofuse_tokenizer* tokenizer,
                                                                     const char* text, size_t text_bytes,
                                                                     reprofuse_text_span** spans, size_t* count);

/* *text is well-formed UTF-8 with a zero after it, and goes back with reprofuse_free(). */
REPROFUSE_C_API reprofuse_status reprofuse_tokenizer_decode(const reprofuse_tokenizer* tokenizer, const int32_t* tokens,
                                                            size_t count, int skip_special_tokens, char** text,
                                                            size_t* text_bytes);

/* One more than the largest id. */
REPROFUSE_C_API reprofuse_status reprofuse_tokenizer_vocab_size(const reprofuse_tokenizer* tokenizer, int64_t* size);

/* The id of an added or special token, or of any by its spelling in tokenizer.json; -1 where there is none. */
REPROFUSE_C_API reprofuse_status reprofuse_tokenizer_token_id(const reprofuse_tokenizer* tokenizer,
                                                              const char* spelling, int32_t* id);

/* What a token stands for: any bytes, perhaps part of a character; valid as long as the tokenizer. special: whether
 * decoding may skip it; may be NULL. */
REPROFUSE_C_API reprofuse_status reprofuse_tokenizer_token_bytes(const reprofuse_tokenizer* tokenizer, int32_t id,
                                                                 const char** bytes, size_t* count, int* special);

/* Tokens to text while they come: never part of a character. For one thread at a time. */
typedef struct reprofuse_detokenizer reprofuse_detokenizer;

REPROFUSE_C_API reprofuse_status reprofuse_detokenizer_create(const reprofuse_tokenizer* tokenizer,
                                                              int skip_special_tokens,
                                                              reprofuse_detokenizer** detokenizer);
REPROFUSE_C_API void reprofuse_detokenizer_destroy(reprofuse_detokenizer* detokenizer);

/* The text that this token completes, perhaps none; valid until the next call with this detokenizer. */
REPROFUSE_C_API reprofuse_status reprofuse_detokenizer_push(reprofuse_detokenizer* detokenizer, int32_t token,
                                                            const char** text, size_t* text_bytes);

/* What was held back. The next push starts a new text. */
REPROFUSE_C_API reprofuse_status reprofuse_detokenizer_flush(reprofuse_detokenizer* detokenizer, const char** text,
                                                             size_t* text_bytes);

/* Turns messages into the text that a model was trained to continue: Jinja2, as Hugging Face sets it up. */
typedef struct reprofuse_chat_template reprofuse_chat_template;

typedef struct reprofuse_chat_options {
  uint32_t struct_size;
  uint32_t struct_version;
  int32_t add_generation_prompt; /* 1: end where the answer begins */
  const char* date;              /* what the template sees as today; NULL: "2024-07-26", never a clock */
  const char* tools_json;        /* a JSON array of functions that the model may call; NULL: none */
  const char* variables_json;    /* a JSON object of others that the template reads; NULL: none */
} reprofuse_chat_options;

REPROFUSE_C_API reprofuse_status reprofuse_chat_options_init(reprofuse_chat_options* options, size_t size);

/* source: the template; name: how errors call it; special_tokens_json: {"bos_token": "<s>", ...}, or NULL.
 * reprofuse_checkpoint_chat_template() gives the one of a folder. */
REPROFUSE_C_API reprofuse_status reprofuse_chat_template_create(const char* source, const char* name,
                                                                const char* special_tokens_json,
                                                                reprofuse_chat_template** chat_template);
REPROFUSE_C_API void reprofuse_chat_template_destroy(reprofuse_chat_template* chat_template);

/* messages_json: an array of {"role": ..., "content": ...}. options: NULL for the defaults. *text has a zero after it
 * and goes back with reprofuse_free(). It holds the special tokens already: encode it without adding any. */
REPROFUSE_C_API reprofuse_status reprofuse_chat_template_render(const reprofuse_chat_template* chat_template,
                                                                const char* messages_json,
                                                                const reprofuse_chat_options* options, char** text,
                                                                size_t* text_bytes);

#ifdef __cplusplus
}
#endif

#endif /* REPROFUSE_C_TEXT_H_ */
