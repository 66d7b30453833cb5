/* Compiled as strict C99: the header must be C, and a layer must run from C. */
#include <stdio.h>
#include <stdlib.h>

#include "reprofuse/reprofuse.h"

#define CHECK(condition)                                                                              \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, reprofuse_last_error()); \
      return EXIT_FAILURE;                                                                            \
    }                                                                                                 \
  } while (0)

int main(void) {
  const float w[2][3] = {{1, 2, 3}, {4, 5, 6}};
  const float x[3] = {1, 10, 100};
  const float bias[2] = {0.5F, -0.5F};
  float y[2] = {0, 0};
  reprofuse_context* context = NULL;
  reprofuse_linear* linear = NULL;
  reprofuse_weight weight = {w, REPROFUSE_F32, 2, 3, 3};
  reprofuse_output output = {y, 2, bias};
  size_t bytes = 0;
  void* workspace = NULL;
  reprofuse_context_options options;
  reprofuse_linear_options layer;

  CHECK(reprofuse_context_options_init(&options, sizeof options) == REPROFUSE_OK);
  options.isa = "scalar";
  options.threads = 1;
  CHECK(reprofuse_abi_version() == REPROFUSE_ABI_VERSION);
  CHECK(reprofuse_context_create(&options, &context) == REPROFUSE_OK);
  CHECK(reprofuse_linear_options_init(&layer, sizeof layer) == REPROFUSE_OK);
  layer.name = "tiny";
  CHECK(reprofuse_linear_create(context, &weight, 1, &layer, &linear) == REPROFUSE_OK);
  CHECK(reprofuse_linear_workspace_bytes(linear, 1, &bytes) == REPROFUSE_OK);
  workspace = malloc(bytes + 1);
  CHECK(workspace != NULL);
  CHECK(reprofuse_workspace_reset(context, workspace, bytes, NULL) == REPROFUSE_OK);
  CHECK(reprofuse_linear_run(linear, x, 1, 3, &output, 1, workspace, bytes, NULL) == REPROFUSE_OK);
  CHECK(reprofuse_workspace_check(context, workspace, NULL) == REPROFUSE_OK);
  CHECK(y[0] == 321.5F && y[1] == 653.5F);
  free(workspace);
  reprofuse_linear_destroy(linear);
  reprofuse_context_destroy(context);
  return EXIT_SUCCESS;
}
