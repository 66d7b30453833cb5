/* Checkpoints, models and the engine that answers requests. Include reprofuse/reprofuse.h. */
#ifndef REPROFUSE_C_MODEL_H_
#define REPROFUSE_C_MODEL_H_

#include "reprofuse/c/layers.h"
#include "reprofuse/c/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model on disk, in the layout of Hugging Face. */
typedef struct reprofuse_checkpoint reprofuse_checkpoint;

/* Opens the files and reads their headers. Errors name file, key and value. */
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_open(const char* folder, reprofuse_checkpoint** checkpoint);
REPROFUSE_C_API void reprofuse_checkpoint_destroy(reprofuse_checkpoint* checkpoint);

typedef struct reprofuse_facts {
  uint32_t struct_size;
  uint32_t struct_version;
  const char* folder;       /* this and the next live as long as the checkpoint */
  const char* architecture; /* "LlamaForCausalLM" */
  int64_t vocab_size;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t layers;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t max_positions; /* the longest text that the model declares */
  int64_t parameters;
  double rms_norm_eps;
  int32_t tied_embeddings;
  int32_t has_tokenizer;
  int32_t has_chat_template;
  const int32_t* stop_tokens; /* any of them ends an answer; as long as the checkpoint */
  size_t stop_token_count;
  reprofuse_sampling suggested_sampling; /* what generation_config.json asks for */
} reprofuse_facts;

REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_facts(const reprofuse_checkpoint* checkpoint,
                                                            reprofuse_facts* facts, size_t size);

typedef struct reprofuse_tensor {
  uint32_t struct_size;
  uint32_t struct_version;
  const char* name; /* lives as long as the checkpoint */
  int32_t dtype;    /* a reprofuse_dtype */
  int32_t rank;
  int64_t shape[4];
  size_t bytes; /* of all elements */
} reprofuse_tensor;

/* Fills cos and sin, [positions, head_dim / 2] each, in host memory, as config.json says: its theta and its scaling. */
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_rotary_table(const reprofuse_checkpoint* checkpoint,
                                                                   int64_t positions, float* cos, float* sin);

REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_tensor_count(const reprofuse_checkpoint* checkpoint,
                                                                   size_t* count);
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_tensor(const reprofuse_checkpoint* checkpoint, size_t index,
                                                             reprofuse_tensor* tensor, size_t size);
/* Fills data, which has as many bytes as the tensor, with its elements, little-endian as in the file.
 * REPROFUSE_INVALID_ARGUMENT where the file cannot be read, or has changed since it was opened. */
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_read_tensor(const reprofuse_checkpoint* checkpoint, size_t index,
                                                                  void* data, size_t bytes);

/* Called with the bytes done so far and in all, by one thread at a time, though not always the same one. */
typedef void (*reprofuse_progress)(int64_t done, int64_t total, void* user);

/* A name for the model's bits: SHA-256 over its constants and all tensors, as 64 hex digits and a zero. Reads every
 * weight. progress may be NULL. */
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_digest(const reprofuse_checkpoint* checkpoint,
                                                             reprofuse_progress progress, void* user, char digest[65]);

/* REPROFUSE_UNSUPPORTED, with the reason, where the folder has none that this build understands. */
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_tokenizer(const reprofuse_checkpoint* checkpoint,
                                                                reprofuse_tokenizer** tokenizer);
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_chat_template(const reprofuse_checkpoint* checkpoint,
                                                                    reprofuse_chat_template** chat_template);

/* A prompt as it is, with the special tokens that the folder's files put around a text. *tokens goes back with
 * reprofuse_free(). */
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_encode_prompt(const reprofuse_checkpoint* checkpoint,
                                                                    const char* text, int32_t** tokens, size_t* count);
/* Messages through the chat template, as tokens. options: NULL for the defaults. */
REPROFUSE_C_API reprofuse_status reprofuse_checkpoint_encode_chat(const reprofuse_checkpoint* checkpoint,
                                                                  const char* messages_json,
                                                                  const reprofuse_chat_options* options,
                                                                  int32_t** tokens, size_t* count);

/* A checkpoint's weights, made ready for a device. */
typedef struct reprofuse_model reprofuse_model;

typedef struct reprofuse_load_options {
  uint32_t struct_size;
  uint32_t struct_version;
  int64_t max_positions;       /* the longest text to serve; 0: as the model declares */
  reprofuse_progress progress; /* of the bytes read, or NULL */
  void* user;                  /* what progress is given */
} reprofuse_load_options;

REPROFUSE_C_API reprofuse_status reprofuse_load_options_init(reprofuse_load_options* options, size_t size);

/* Reads and packs every weight. options: NULL for the defaults. */
REPROFUSE_C_API reprofuse_status reprofuse_model_load(const reprofuse_context* context,
                                                      const reprofuse_checkpoint* checkpoint,
                                                      const reprofuse_load_options* options, reprofuse_model** model);
REPROFUSE_C_API void reprofuse_model_destroy(reprofuse_model* model);

/* The longest text that it serves: what reprofuse_load_options gave, or the checkpoint declares. */
REPROFUSE_C_API reprofuse_status reprofuse_model_max_positions(const reprofuse_model* model, int64_t* positions);

/* Many requests at once over one model, on a thread of its own. */
typedef struct reprofuse_engine reprofuse_engine;

typedef struct reprofuse_engine_options {
  uint32_t struct_size;
  uint32_t struct_version;
  int64_t kv_bytes;     /* of keys and values, for one of the longest texts at least; 0: for max_batch of them, but at
                           most a quarter of the host's available memory, or nine tenths of a GPU's free one */
  int64_t max_batch;    /* answers in one pass: 64, up to 4096 */
  int64_t max_rows;     /* tokens in one pass: 512, up to 65535; no fewer than max_batch, to which it is raised. 2048
                           compute prompts faster on a GPU that has the memory */
  int64_t max_queue;    /* answers that may wait or run at the same time: 1024 */
  int32_t prefix_cache; /* 1: keep the keys and values of texts that may come again */
  int32_t speculation;  /* tokens guessed ahead and checked in one pass: 0, up to 64 */
} reprofuse_engine_options;

REPROFUSE_C_API reprofuse_status reprofuse_engine_options_init(reprofuse_engine_options* options, size_t size);

/* options: NULL for the defaults. */
REPROFUSE_C_API reprofuse_status reprofuse_engine_create(const reprofuse_model* model,
                                                         const reprofuse_engine_options* options,
                                                         reprofuse_engine** engine);
/* Answers under way go on, and the engine runs until the last of them is destroyed. */
REPROFUSE_C_API void reprofuse_engine_destroy(reprofuse_engine* engine);

/* The longest text: what the model and the KV cache hold. */
REPROFUSE_C_API reprofuse_status reprofuse_engine_max_positions(const reprofuse_engine* engine, int64_t* positions);

typedef struct reprofuse_engine_stats {
  uint32_t struct_size;
  uint32_t struct_version;
  int64_t running; /* answers in the KV cache */
  int64_t waiting;
  int64_t pages; /* of the KV cache */
  int64_t pages_in_use;
  int64_t passes; /* since the start, as all that follows */
  int64_t prompt_tokens;
  int64_t queried_prompt_tokens; /* of these, those looked for in the prefix cache */
  int64_t cached_prompt_tokens;  /* of these, those found */
  int64_t generated_tokens;
  int64_t preemptions;
  int64_t guessed_tokens;
  int64_t accepted_tokens; /* of these */
} reprofuse_engine_stats;

REPROFUSE_C_API reprofuse_status reprofuse_engine_get_stats(const reprofuse_engine* engine,
                                                            reprofuse_engine_stats* stats, size_t size);

/* What a digest of an answer chains: the Merkle roots of its rows of logits, which devices compute, or the rows
 * themselves, which have to cross to the host. Digests of TREE_1 begin with "tree-1:". */
typedef enum reprofuse_digest_kind {
  REPROFUSE_DIGEST_NONE = 0,
  REPROFUSE_DIGEST_TREE_1 = 1,
  REPROFUSE_DIGEST_CHAIN_1 = 2
} reprofuse_digest_kind;

/* The answers are a function of the model and of these fields, but for priority, which says only when. */
typedef struct reprofuse_request {
  uint32_t struct_size;
  uint32_t struct_version;
  const int32_t* prompt; /* token ids, or NULL and a text: */
  size_t prompt_count;
  const char* prompt_text; /* encoded as reprofuse_checkpoint_encode_prompt() does; NULL where there are ids */
  reprofuse_sampling sampling;
  int64_t max_tokens;         /* 256; 0: none, for the log-probabilities of the prompt alone */
  int32_t choices;            /* 1, up to 128; choice i is the answer that seed + i gives */
  int32_t priority;           /* 0; the lowest number goes first */
  const int32_t* stop_tokens; /* any of them ends an answer; NULL: those of the checkpoint */
  size_t stop_token_count;
  const char* const* stop_strings; /* the same, in the text */
  size_t stop_string_count;
  int32_t keep_stop_string;    /* 0: the text ends before it */
  int32_t skip_special_tokens; /* 1: they are not in the text */
  int32_t logprobs;        /* how many of the most likely tokens to report with each token, 0 to 20; -1: none at all */
  int32_t prompt_logprobs; /* the same for the prompt's tokens */
  int32_t digest;          /* a reprofuse_digest_kind: a chain of hashes over the logits of every step */
} reprofuse_request;

REPROFUSE_C_API reprofuse_status reprofuse_request_init(reprofuse_request* request, size_t size);

/* The answers to one request, as a stream of updates. For one thread at a time. */
typedef struct reprofuse_answers reprofuse_answers;

/* Returns at once. REPROFUSE_BUSY when max_queue answers are under way. Once the engine has failed, the status with
 * which it did: make a new one. */
REPROFUSE_C_API reprofuse_status reprofuse_engine_submit(const reprofuse_engine* engine,
                                                         const reprofuse_request* request, reprofuse_answers** answers);
/* Cancels what has not ended. */
REPROFUSE_C_API void reprofuse_answers_destroy(reprofuse_answers* answers);
/* No more updates come; the next one says REPROFUSE_NEXT_FINISHED. */
REPROFUSE_C_API reprofuse_status reprofuse_answers_cancel(reprofuse_answers* answers);

typedef enum reprofuse_update_kind {
  REPROFUSE_NEXT_NOTHING = 0, /* no update came in time: ask again */
  REPROFUSE_NEXT_UPDATE = 1,
  REPROFUSE_NEXT_FINISHED = 2 /* every choice has ended, or the request was cancelled: nothing more comes */
} reprofuse_update_kind;

typedef enum reprofuse_finish_reason {
  REPROFUSE_FINISH_NONE = 0,
  REPROFUSE_FINISH_STOP = 1,   /* by a stop token or a stop string */
  REPROFUSE_FINISH_LENGTH = 2, /* max_tokens */
  REPROFUSE_FINISH_ERROR = 3   /* such as a value that is not finite */
} reprofuse_finish_reason;

/* A token of an answer or, without text and digest, of a prompt. It does not grow, so that tokens[i] is right in
 * programs and libraries of all ages: more about tokens will be arrays of their own in reprofuse_update, as
 * logits_roots is. */
typedef struct reprofuse_token {
  int32_t id;
  int32_t has_logprob; /* 0: not asked for, or the first of a prompt */
  float logprob;
  int64_t rank;                       /* 1: the most likely */
  const reprofuse_token_logprob* top; /* the most likely tokens */
  size_t top_count;
  const char* text;   /* what is certain now; part of the update's text */
  const char* digest; /* of all steps so far, or "" */
} reprofuse_token;

/* What is new of one choice. Pointers are valid until the next call with these answers. */
typedef struct reprofuse_update {
  uint32_t struct_size;
  uint32_t struct_version;
  int32_t kind; /* a reprofuse_update_kind; unless it is REPROFUSE_NEXT_UPDATE nothing else is set */
  int32_t choice;
  const char* text; /* of all tokens of this update, with a zero after it */
  size_t text_bytes;
  const reprofuse_token* tokens;
  size_t token_count;
  const reprofuse_token* prompt; /* with prompt_logprobs, of choice 0 alone: the next of its tokens */
  size_t prompt_count;
  int64_t cached_prompt_tokens;
  int32_t finish_reason;   /* a reprofuse_finish_reason; of the choice */
  int32_t stop_token;      /* which one ended it, or -1 */
  const char* stop_string; /* which of these, or NULL */
  const char* digest;      /* of all steps when it has ended and a digest was asked for, else ""; "" also of no step */
  const char* error;       /* REPROFUSE_FINISH_ERROR: why, else "" */
  /* REPROFUSE_FINISH_ERROR: a reprofuse_status, else REPROFUSE_OK. REPROFUSE_NON_FINITE: the answer met a NaN or an
   * infinity, and would again. REPROFUSE_OUT_OF_MEMORY: there was no memory for it, ask again. REPROFUSE_DEVICE and
   * REPROFUSE_INTERNAL: the engine has failed; make a new one. */
  int32_t error_status;
  const uint8_t* logits_roots; /* REPROFUSE_DIGEST_TREE_1: 32 bytes for each of tokens, the Merkle root of the row of
                                  logits that chose it, and 32 more for a stop token; else NULL */
  size_t logits_root_count;
} reprofuse_update;

/* Waits up to timeout_ms milliseconds for an update. */
REPROFUSE_C_API reprofuse_status reprofuse_answers_next(reprofuse_answers* answers, int64_t timeout_ms,
                                                        reprofuse_update* update, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* REPROFUSE_C_MODEL_H_ */
