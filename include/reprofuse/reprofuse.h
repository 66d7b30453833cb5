/* The C ABI of ReproFuse: plain C99, stable within one value of REPROFUSE_ABI_VERSION.
 *
 * Every call that can fail returns a reprofuse_status; reprofuse_last_error() then says what was wrong, with the value
 * and the place. No call prints, aborts or lets a C++ exception out, and a NULL handle is an error, not a crash.
 * Strides count elements, not bytes. On a CUDA context x, y, bias, weights and the workspace are device pointers.
 */
#ifndef REPROFUSE_REPROFUSE_H_
#define REPROFUSE_REPROFUSE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define REPROFUSE_C_API __attribute__((visibility("default")))
#else
#define REPROFUSE_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI this header describes, which is also the SOVERSION of the library. */
#define REPROFUSE_ABI_VERSION 0

/* The ABI of the library that was loaded; compare it with REPROFUSE_ABI_VERSION before any other call. */
REPROFUSE_C_API int reprofuse_abi_version(void);

/* "0.1.0" */
REPROFUSE_C_API const char* reprofuse_version(void);

typedef enum reprofuse_status {
  REPROFUSE_OK = 0,
  REPROFUSE_INVALID_ARGUMENT = 1, /* a shape, stride, pointer or name that makes no sense */
  REPROFUSE_UNSUPPORTED = 2,      /* a backend, instruction set or contract this build or machine lacks */
  REPROFUSE_NON_FINITE = 3,       /* a NaN or an infinity in a weight or a result; the message names the place */
  REPROFUSE_DEVICE = 4,           /* the CUDA runtime reported an error */
  REPROFUSE_INTERNAL = 5,         /* a broken invariant: a bug in ReproFuse */
  REPROFUSE_OUT_OF_MEMORY = 6     /* the host has no memory left */
} reprofuse_status;

/* Why the latest call of this thread that failed did so; "" before the first failure. The text stays valid until the
 * next failing call of the same thread. */
REPROFUSE_C_API const char* reprofuse_last_error(void);

/* What this build can compute by, contracts first ("fma-1", "fma-1-kv16", "exact-1", "exact-1-kv16"), then baselines,
 * which pin no bits; and the instruction sets that it can use on this machine ("scalar", "avx2", "avx512", "neon";
 * slowest first). One by one: NULL when index is past the end. */
REPROFUSE_C_API const char* reprofuse_numerics_name(size_t index);
REPROFUSE_C_API const char* reprofuse_isa_name(size_t index);

/* Where to compute and by which contract. A context may be used by several threads, and may be destroyed before the
 * layers that were made with it. */
typedef struct reprofuse_context reprofuse_context;

/* numerics: one of the names above, or NULL for "fma-1". isa: forced, or NULL for the best this machine has.
 * threads: 0 takes every core available to the process. */
REPROFUSE_C_API reprofuse_status reprofuse_context_create_cpu(const char* numerics, const char* isa, int threads,
                                                              reprofuse_context** context);

/* ordinal: of the CUDA device. REPROFUSE_UNSUPPORTED when the build has no CUDA or the machine no such device. */
REPROFUSE_C_API reprofuse_status reprofuse_context_create_cuda(const char* numerics, int ordinal,
                                                               reprofuse_context** context);

/* NULL is allowed, as with free(). */
REPROFUSE_C_API void reprofuse_context_destroy(reprofuse_context* context);

/* "cpu avx512, 2 threads"; valid as long as the context. NULL for a NULL context. */
REPROFUSE_C_API const char* reprofuse_context_description(const reprofuse_context* context);

typedef enum reprofuse_dtype { REPROFUSE_F32 = 0, REPROFUSE_BF16 = 1, REPROFUSE_F16 = 2 } reprofuse_dtype;

typedef struct reprofuse_weight {
  const void* data; /* [n, k] of dtype, aligned to its element */
  int32_t dtype;    /* a reprofuse_dtype, the same for every weight of a layer */
  int64_t n;
  int64_t k;      /* the same for every weight of a layer; exact-1 takes up to 131072 */
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

/* CPU: the weights are packed, and may be freed afterwards. CUDA: they are used in place, must not change and must
 * outlive the layer. name appears in error messages; NULL is "linear". */
REPROFUSE_C_API reprofuse_status reprofuse_linear_create(const reprofuse_context* context,
                                                         const reprofuse_weight* weights, size_t count,
                                                         const char* name, reprofuse_linear** linear);

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

/* Makes memory of the caller, aligned to 256 bytes, a workspace. CUDA: enqueued on stream, and needed once before the
 * first run. CPU: nothing to do. */
REPROFUSE_C_API reprofuse_status reprofuse_workspace_reset(const reprofuse_context* context, void* workspace,
                                                           size_t bytes, void* stream);

/* CUDA: waits for stream, then returns REPROFUSE_NON_FINITE if a launch since the last reset met a NaN or an infinity;
 * the record is cleared. CPU: always REPROFUSE_OK, since reprofuse_linear_run() itself reports it. */
REPROFUSE_C_API reprofuse_status reprofuse_workspace_check(const reprofuse_context* context, void* workspace,
                                                           void* stream);

#ifdef __cplusplus
}
#endif

#endif /* REPROFUSE_REPROFUSE_H_ */
