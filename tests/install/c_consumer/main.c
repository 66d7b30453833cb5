/* What a C user writes: one layer, one row. */
#include <reprofuse/reprofuse.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void) {
  fprintf(stderr, "%s\n", reprofuse_last_error());
  return EXIT_FAILURE;
}

int main(void) {
  const float w[2] = {0.5F, 2};
  const float x[2] = {8, 16};
  float y = 0;
  const reprofuse_weight weight = {w, REPROFUSE_F32, 1, 2, 2};
  const reprofuse_output output = {&y, 1, NULL};
  reprofuse_context* context = NULL;
  reprofuse_linear* linear = NULL;
  size_t bytes = 0;
  void* workspace = NULL;
  reprofuse_status status = REPROFUSE_OK;

  if (reprofuse_abi_version() != REPROFUSE_ABI_VERSION) return EXIT_FAILURE;
  if (reprofuse_context_create_cpu(NULL, NULL, 1, &context)) return fail();
  if (reprofuse_linear_create(context, &weight, 1, NULL, &linear)) return fail();
  if (reprofuse_linear_workspace_bytes(linear, 1, &bytes)) return fail();
  workspace = malloc(bytes + 1);
  status = reprofuse_linear_run(linear, x, 1, 2, &output, 1, workspace, bytes, NULL);
  free(workspace);
  reprofuse_linear_destroy(linear);
  reprofuse_context_destroy(context);
  if (status != REPROFUSE_OK) return fail();
  printf("ReproFuse %s: y = %g\n", reprofuse_version(), (double)y);
  return y == 36 ? EXIT_SUCCESS : EXIT_FAILURE;
}
