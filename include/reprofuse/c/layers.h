/* Linear layers, the other operations of a transformer, and the sampler, over memory of the caller. On a CUDA context
 * what layers and operations are given is in device memory, and so are logits; calls of layers and operations enqueue
 * on stream (a cudaStream_t, NULL is the default stream) without allocating or synchronising, so that they can be
 * captured in a graph. What reprofuse_rotary_table() fills and reprofuse_sampler_run() is given beside logits is in
 * host memory, and the sampler waits. On a CPU every call computes and returns. */
#ifndef REPROFUSE_C_LAYERS_H_
#define REPROFUSE_C_LAYERS_H_

#include "reprofuse/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum reprofuse_dtype {
  REPROFUSE_NO_DTYPE = -1, /* of keys and values that a contract keeps in integers */
  REPROFUSE_F32 = 0,
  REPROFUSE_BF16 = 1,
  REPROFUSE_F16 = 2
} reprofuse_dtype;

typedef struct reprofuse_weight {
  const void* data; /* [n, k] of dtype, aligned to its element */
  int32_t dtype;    /* a reprofuse_dtype, the same for every weight of a layer */
  int64_t n;
  int64_t k;      /* the same for every weight of a layer; contracts in integers take up to 131072 */
  int64_t stride; /* elements between the starts of two rows, >= k */
} reprofuse_weight;

typedef struct reprofuse_output {
  float* y;          /* [m, n] */
  int64_t y_stride;  /* elements between the starts of two rows, >= n; not looked at when m <= 1 */
  const float* bias; /* [n], or NULL */
} reprofuse_output;

/* The linear layer y = x W^T + b, or several that share x (Q, K, V; gate, up) and run in one launch. The bits of a row
 * depend on that row and on the weights alone. Several threads may run one layer at a time, each with a workspace of
 * its own. */
typedef struct reprofuse_linear reprofuse_linear;

/* What a CUDA layer may do with the memory of its weights. TAKE: keep them there in another form of the same size,
 * which int16-1 does where their sizes allow it; nobody else may read them from then on, also where the layer cannot be
 * made, and no two matrices may overlap. */
typedef enum reprofuse_weight_use { REPROFUSE_WEIGHTS_READ = 0, REPROFUSE_WEIGHTS_TAKE = 1 } reprofuse_weight_use;

typedef struct reprofuse_linear_options {
  uint32_t struct_size;
  uint32_t struct_version;
  const char* name;   /* for error messages; NULL: "linear" */
  int32_t weight_use; /* a reprofuse_weight_use: REPROFUSE_WEIGHTS_READ */
} reprofuse_linear_options;

REPROFUSE_C_API reprofuse_status reprofuse_linear_options_init(reprofuse_linear_options* options, size_t size);

/* CPU: the weights are packed, and may be freed afterwards. CUDA: they are used in place, must not change and must
 * outlive the layer. options: NULL for the defaults. */
REPROFUSE_C_API reprofuse_status reprofuse_linear_create(const reprofuse_context* context,
                                                         const reprofuse_weight* weights, size_t count,
                                                         const reprofuse_linear_options* options,
                                                         reprofuse_linear** linear);

/* NULL is allowed. On CUDA no launch of the layer may be pending. */
REPROFUSE_C_API void reprofuse_linear_destroy(reprofuse_linear* linear);

/* Which kernels run: "avx512", "avx512 vnni", "cuda sm_90"; valid as long as the layer. NULL for a NULL layer. */
REPROFUSE_C_API const char* reprofuse_linear_implementation(const reprofuse_linear* linear);

/* The scratch memory that reprofuse_linear_run() needs for any batch of up to max_m rows. */
REPROFUSE_C_API reprofuse_status reprofuse_linear_workspace_bytes(const reprofuse_linear* linear, int64_t max_m,
                                                                  size_t* bytes);

/* x: [m, k] with x_stride elements between rows (>= k; not looked at when m <= 1); one output per weight, in their
 * order. No y may overlap x, a bias or another y; columns of one matrix, as views with its row stride, do not overlap.
 * CPU: computes and returns; stream is not used. CUDA: enqueues on stream (a cudaStream_t, NULL is the default stream)
 * without allocating or synchronising, so that the call can be captured in a graph. */
REPROFUSE_C_API reprofuse_status reprofuse_linear_run(const reprofuse_linear* linear, const float* x, int64_t m,
                                                      int64_t x_stride, const reprofuse_output* outputs, size_t count,
                                                      void* workspace, size_t workspace_bytes, void* stream);

typedef struct reprofuse_matrix {
  float* data; /* [rows, cols]; not written where a call only reads it */
  int64_t rows;
  int64_t cols;
  int64_t stride; /* elements between the starts of two rows, >= cols */
} reprofuse_matrix;

/* The operations that are no linear layers, for a place in a model whose name errors tell. Each call takes a workspace
 * of its own: memory for at least as many bytes as it needs, on CUDA prepared by reprofuse_workspace_reset().
 *
 * Results may not overlap what they are made of, where nothing else is said. On a CPU what arrays hold is checked: ids,
 * positions, page numbers. On CUDA only pointers and sizes are: an index outside its range is undefined behaviour
 * there. And there a kernel may begin before the one ahead of it in the stream has ended. It waits before it reads what
 * that one may have written, but for the weights and biases of linear layers and of rms_norm and the arrays of a batch:
 * write these by copies, never by the kernel ahead. */
typedef struct reprofuse_ops reprofuse_ops;

REPROFUSE_C_API reprofuse_status reprofuse_ops_create(const reprofuse_context* context, const char* name,
                                                      reprofuse_ops** ops);
REPROFUSE_C_API void reprofuse_ops_destroy(reprofuse_ops* ops);

/* x[m] = row tokens[m] of the table [vocabulary, hidden], widened. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_embedding(const reprofuse_ops* ops, const reprofuse_weight* table,
                                                         const int32_t* tokens, const reprofuse_matrix* x,
                                                         void* workspace, size_t workspace_bytes, void* stream);

/* x = x + delta, unless delta is NULL; y = weight * (x / rms(x)). y may be x when there is no delta. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_rms_norm(const reprofuse_ops* ops, const reprofuse_matrix* x,
                                                        const reprofuse_matrix* delta, const float* weight, float eps,
                                                        const reprofuse_matrix* y, void* workspace,
                                                        size_t workspace_bytes, void* stream);

/* y = silu(gate) * up; y may be either. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_silu_gate(const reprofuse_ops* ops, const reprofuse_matrix* gate,
                                                         const reprofuse_matrix* up, const reprofuse_matrix* y,
                                                         void* workspace, size_t workspace_bytes, void* stream);

/* y[i] = x[rows[i]]. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_gather_rows(const reprofuse_ops* ops, const reprofuse_matrix* x,
                                                           const int32_t* rows, const reprofuse_matrix* y,
                                                           void* workspace, size_t workspace_bytes, void* stream);

/* Consecutive tokens of one sequence that are computed together: one in decode, many in a prefill. */
typedef struct reprofuse_chunk {
  int32_t first_row; /* of the batch */
  int32_t rows;      /* >= 1 */
  int32_t first_position;
  int32_t sequence; /* row of the page table */
} reprofuse_chunk;

/* The tokens of one pass, one per row. Rows of a chunk are adjacent, and chunks cover all rows in order. */
typedef struct reprofuse_batch {
  uint32_t struct_size;
  uint32_t struct_version;
  int32_t rows;
  int32_t chunk_count;
  int32_t max_chunk_rows;        /* of any chunk */
  int32_t max_keys;              /* bound on position + 1 over all rows */
  const int32_t* positions;      /* [rows] */
  const int32_t* sequences;      /* [rows]: row of the page table */
  const reprofuse_chunk* chunks; /* [chunk_count] */
  /* [page_table_rows, page_table_stride]: entry i of a row is the page that holds positions [i * page_size,
   * (i + 1) * page_size) of its sequence. */
  const int32_t* page_table;
  int32_t page_table_stride; /* elements between the starts of two rows, >= 1 */
  int32_t page_table_rows;   /* sequences are below it, >= 1 */
} reprofuse_batch;

REPROFUSE_C_API reprofuse_status reprofuse_batch_init(reprofuse_batch* batch, size_t size);

/* The keys and values of one layer, in memory of as many bytes as reprofuse_ops_kv_page_bytes() says for each page,
 * aligned to 16 bytes. reprofuse_ops_rotary() stores in it what attention reads; until then it may hold anything. Where
 * a contract keeps integers, their order is the backend's own, and bytes of units lie beside them. */
typedef struct reprofuse_kv_pages {
  uint32_t struct_size;
  uint32_t struct_version;
  void* keys;    /* [pages, kv_heads, head_dim, page_size] */
  void* values;  /* [pages, kv_heads, page_size, head_dim] */
  int32_t dtype; /* what reprofuse_ops_kv_dtype() says; of integers also 0, as init leaves it */
  int32_t kv_heads;
  int32_t head_dim;
  int32_t page_size; /* a power of two, at least 16 */
  int32_t pages;     /* there are so many: the page table's numbers are below it */
  void* key_units;   /* [pages, kv_heads, page_size], aligned to 16 bytes; not looked at where there are none */
  void* value_units; /* likewise */
} reprofuse_kv_pages;

REPROFUSE_C_API reprofuse_status reprofuse_kv_pages_init(reprofuse_kv_pages* pages, size_t size);

/* A reprofuse_dtype: of what the pages hold by the context's numerics. REPROFUSE_NO_DTYPE: of integers. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_kv_dtype(const reprofuse_ops* ops, int32_t* dtype);

/* Of the keys of one page, which its values equal, and of their units: 0 where the context's numerics have none. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_kv_page_bytes(const reprofuse_ops* ops, int64_t kv_heads,
                                                             int64_t head_dim, int64_t page_size, size_t* bytes,
                                                             size_t* unit_bytes);

/* Rotates q [m, heads * head_dim] in place and k by cos and sin [positions, head_dim / 2], and stores k and v
 * [m, kv_heads * head_dim] in the pages of their rows. positions: at least the batch's max_keys. q_norm and k_norm
 * [head_dim], or both NULL: an RMSNorm over each head before, with eps. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_rotary(const reprofuse_ops* ops, const reprofuse_matrix* q,
                                                      const reprofuse_matrix* k, const reprofuse_matrix* v,
                                                      const float* q_norm, const float* k_norm, float eps,
                                                      const float* cos, const float* sin, int64_t positions,
                                                      const reprofuse_batch* batch, const reprofuse_kv_pages* pages,
                                                      void* workspace, size_t workspace_bytes, void* stream);

/* Causal attention of every row over the keys of its sequence up to its own position. window: a row sees the last so
 * many positions, its own included; 0: all. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_attention(const reprofuse_ops* ops, const reprofuse_matrix* q,
                                                         int32_t heads, float scale, int32_t window,
                                                         const reprofuse_batch* batch, const reprofuse_kv_pages* pages,
                                                         const reprofuse_matrix* out, void* workspace,
                                                         size_t workspace_bytes, void* stream);

/* What attention needs for any batch of up to so many rows, chunks and keys. */
REPROFUSE_C_API reprofuse_status reprofuse_ops_attention_workspace_bytes(const reprofuse_ops* ops, int64_t heads,
                                                                         int64_t kv_heads, int64_t head_dim,
                                                                         int64_t rows, int64_t chunks, int64_t keys,
                                                                         size_t* bytes);

typedef enum reprofuse_rotary_kind {
  REPROFUSE_ROTARY_PLAIN = 0,  /* frequency i is theta^(-2i / head_dim) */
  REPROFUSE_ROTARY_LINEAR = 1, /* every frequency divided by factor */
  REPROFUSE_ROTARY_LLAMA3 = 2, /* long wavelengths divided by factor, short ones kept, a ramp between them */
  REPROFUSE_ROTARY_YARN = 3    /* a ramp over dimensions, and cos and sin multiplied by an attention factor */
} reprofuse_rotary_kind;

/* How positions turn queries and keys; reprofuse/rotary.hpp says which fields a kind reads, and their ranges. */
typedef struct reprofuse_rotary {
  uint32_t struct_size;
  uint32_t struct_version;
  int32_t kind;     /* a reprofuse_rotary_kind: REPROFUSE_ROTARY_PLAIN */
  int32_t truncate; /* 1 */
  double theta;     /* 10000 */
  double factor;    /* 1 */
  int64_t original_max_positions;
  double low_freq_factor;  /* 1 */
  double high_freq_factor; /* 1 */
  double beta_fast;        /* 32 */
  double beta_slow;        /* 1 */
  double attention_factor; /* 0: none is given, as of the next two */
  double mscale;
  double mscale_all_dim;
} reprofuse_rotary;

REPROFUSE_C_API reprofuse_status reprofuse_rotary_init(reprofuse_rotary* rotary, size_t size);

/* Fills cos and sin, [positions, head_dim / 2] each, in host memory, for up to 2^20 positions. rotary: NULL for the
 * defaults. reprofuse_checkpoint_rotary_table() does so by what a config.json says. */
REPROFUSE_C_API reprofuse_status reprofuse_rotary_table(const reprofuse_rotary* rotary, int64_t head_dim,
                                                        int64_t positions, float* cos, float* sin);

/* How a token is chosen of its row of logits. */
typedef struct reprofuse_sampling {
  float temperature;        /* 0: the most likely token */
  int32_t top_k;            /* 0: all */
  float top_p;              /* 0 to 1; 1: all */
  float min_p;              /* 0 to 1; 0: all */
  float repetition_penalty; /* above 0, in a request 0.01 to 100; 1: none */
  uint64_t seed;
} reprofuse_sampling;

typedef struct reprofuse_token_logprob {
  int32_t id;
  float logprob; /* natural logarithm, by the logits as they came: no penalty, no temperature */
} reprofuse_token_logprob;

/* One row of logits, and what is known of the token afterwards. */
typedef struct reprofuse_sample {
  uint32_t struct_size;
  uint32_t struct_version;
  reprofuse_sampling sampling;
  uint64_t position;      /* of the token to be chosen */
  const int32_t* history; /* ids in the sequence so far, in any order, in host memory; read for a penalty only */
  size_t history_count;
  int32_t given;    /* a token that is chosen already, whose likelihood alone is asked for; -1: none */
  int32_t logprobs; /* how many of the most likely tokens to report, 0 to 20; -1: not even the chosen one's */
  /* Filled by the call: */
  int32_t token;
  float logprob;
  int32_t rank; /* 1: the most likely */
  reprofuse_token_logprob top[20];
  /* Given: */
  int32_t slot; /* 1 to max_rows: who goes on with a text names the same one again, and only new ids of its history go
                   to the device; 0: none. A matter of speed alone */
  int32_t tell_logits_root; /* 1: fill logits_root */
  /* Filled by the call: */
  uint8_t logits_root[32]; /* of the Merkle tree over the row as it came, which digests of TREE_1 chain */
} reprofuse_sample;

REPROFUSE_C_API reprofuse_status reprofuse_sample_init(reprofuse_sample* sample, size_t size);

/* Rows of one vocabulary, up to max_rows at a time. Threads that use one sampler take turns. */
typedef struct reprofuse_sampler reprofuse_sampler;

REPROFUSE_C_API reprofuse_status reprofuse_sampler_create(const reprofuse_context* context, int64_t vocabulary,
                                                          int64_t max_rows, reprofuse_sampler** sampler);
REPROFUSE_C_API void reprofuse_sampler_destroy(reprofuse_sampler* sampler);

/* logits [count, vocabulary]; samples: an array whose elements are struct_size bytes apart, the same for each. On CUDA
 * waits for stream. */
REPROFUSE_C_API reprofuse_status reprofuse_sampler_run(const reprofuse_sampler* sampler, const float* logits,
                                                       int64_t stride, reprofuse_sample* samples, size_t count,
                                                       void* stream);

#ifdef __cplusplus
}
#endif

#endif /* REPROFUSE_C_LAYERS_H_ */
