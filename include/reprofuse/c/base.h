/* Status, versions and contexts. Include reprofuse/reprofuse.h, which says what holds for all of the C ABI. */
#ifndef REPROFUSE_C_BASE_H_
#define REPROFUSE_C_BASE_H_

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

/* The ABI these headers describe, which is also the SOVERSION of the library. */
#define REPROFUSE_ABI_VERSION 1

/* The ABI of the library that was loaded; compare it with REPROFUSE_ABI_VERSION before any other call. */
REPROFUSE_C_API int reprofuse_abi_version(void);

/* "0.2.0" */
REPROFUSE_C_API const char* reprofuse_version(void);

typedef enum reprofuse_status {
  REPROFUSE_OK = 0,
  REPROFUSE_INVALID_ARGUMENT = 1, /* a shape, stride, pointer, name or file that makes no sense */
  REPROFUSE_UNSUPPORTED = 2,      /* what this build, machine or model lacks */
  REPROFUSE_NON_FINITE = 3,       /* a NaN or an infinity in a weight or a result; the message names the place */
  REPROFUSE_DEVICE = 4,           /* the CUDA runtime reported an error */
  REPROFUSE_INTERNAL = 5,         /* a broken invariant: a bug in ReproFuse */
  REPROFUSE_OUT_OF_MEMORY = 6,    /* the host has no memory left */
  REPROFUSE_BUSY = 7              /* a queue is full: try again later */
} reprofuse_status;

/* Structs that may grow begin with struct_size and struct_version, which reprofuse_..._init(&it, sizeof it) sets.
 * Within an ABI version they grow at their end alone, and a field that is added means by zero what was done without it.
 * So a program may be older or newer than the library:
 *   - a struct_size below this library's, down to that of the first version: the fields that it lacks are zero;
 *   - a struct_size above it: what this library does not know must be zero, as init leaves it; anything else is
 *     REPROFUSE_INVALID_ARGUMENT, never passed over.
 * A struct that the library fills is filled as far as both know it, zeroed beyond, and struct_size then says how far.
 * In an array elements are struct_size bytes apart, which is what sizeof gives. */

/* Why the latest call of this thread that failed did so; "" before the first failure. The text stays valid until the
 * next failing call of the same thread. */
REPROFUSE_C_API const char* reprofuse_last_error(void);

/* Gives back memory that a call of this library returned through a char**, int32_t** or reprofuse_text_span**. NULL is
 * allowed. */
REPROFUSE_C_API void reprofuse_free(void* memory);

/* One by one, NULL when index is past the end; the texts live as long as the library. The contracts ("fma-1",
 * "fma-1-kv16", "exact-1", "exact-1-kv16", "exact-2", "int16-1"). The instruction sets that this build can use on this
 * machine ("scalar", "avx2", "avx512", "neon"; slowest first). Its devices ("cpu", "cuda:0", "cuda:1"), as they were at
 * the first call, and why one of them cannot be opened: "" where it can. */
REPROFUSE_C_API const char* reprofuse_numerics_name(size_t index);
REPROFUSE_C_API const char* reprofuse_isa_name(size_t index);
REPROFUSE_C_API const char* reprofuse_device_name(size_t index);
REPROFUSE_C_API const char* reprofuse_device_problem(size_t index);

/* What measurements favour on this device, and the tool takes when nobody names a contract: "int16-1" on a GPU, "fma-1"
 * on a CPU; the text lives as long as the library. REPROFUSE_UNSUPPORTED for a name that is no device's. */
REPROFUSE_C_API reprofuse_status reprofuse_default_numerics(const char* device, const char** numerics);

/* Where to compute and by which contract. */
typedef struct reprofuse_context reprofuse_context;

typedef struct reprofuse_context_options {
  uint32_t struct_size;
  uint32_t struct_version;
  const char* device;   /* "cpu", "cuda" or, of several GPUs, "cuda:1"; NULL: "cpu" */
  const char* numerics; /* a name from above; NULL: "fma-1" */
  const char* isa;      /* of a CPU: forced; NULL: the best that this machine has */
  int32_t threads;      /* of a CPU: 0 takes every core available to the process */
} reprofuse_context_options;

REPROFUSE_C_API reprofuse_status reprofuse_context_options_init(reprofuse_context_options* options, size_t size);

/* options: NULL for the defaults. REPROFUSE_UNSUPPORTED, with the reason, for what the build or the machine lacks. */
REPROFUSE_C_API reprofuse_status reprofuse_context_create(const reprofuse_context_options* options,
                                                          reprofuse_context** context);
REPROFUSE_C_API void reprofuse_context_destroy(reprofuse_context* context);

/* "cpu avx512, 2 threads"; valid as long as the context. NULL for a NULL context. */
REPROFUSE_C_API const char* reprofuse_context_description(const reprofuse_context* context);

/* What it was opened with, resolved: "cpu" or "cuda:0"; the contract; the instruction set of a CPU's kernels, "" on a
 * GPU; the host threads that compute, 0 on a GPU. Texts are valid as long as the context. NULL and 0 for a NULL
 * context. */
REPROFUSE_C_API const char* reprofuse_context_device(const reprofuse_context* context);
REPROFUSE_C_API const char* reprofuse_context_numerics(const reprofuse_context* context);
REPROFUSE_C_API const char* reprofuse_context_isa(const reprofuse_context* context);
REPROFUSE_C_API int32_t reprofuse_context_threads(const reprofuse_context* context);

/* Makes memory of the caller, aligned to 256 bytes, a workspace. CUDA: enqueued on stream, and needed once before the
 * first run. CPU: nothing to do. */
REPROFUSE_C_API reprofuse_status reprofuse_workspace_reset(const reprofuse_context* context, void* workspace,
                                                           size_t bytes, void* stream);

/* CUDA: waits for stream, then returns REPROFUSE_NON_FINITE if a launch since the last reset met a NaN or an infinity;
 * the record is cleared. CPU: always REPROFUSE_OK, since the call that meets it reports it. */
REPROFUSE_C_API reprofuse_status reprofuse_workspace_check(const reprofuse_context* context, void* workspace,
                                                           void* stream);

#ifdef __cplusplus
}
#endif

#endif /* REPROFUSE_C_BASE_H_ */
