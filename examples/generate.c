/* Asks a model a question and prints the answer as it comes: generate MODEL_FOLDER [MESSAGES_AS_JSON] */
#include <reprofuse/reprofuse.h>
#include <stdio.h>
#include <stdlib.h>

static void check(reprofuse_status status) {
  if (status == REPROFUSE_OK) return;
  fprintf(stderr, "%s\n", reprofuse_last_error());
  exit(EXIT_FAILURE);
}

int main(int argc, char** argv) {
  const char* messages = argc > 2 ? argv[2] : "[{\"role\": \"user\", \"content\": \"What is 12 + 30?\"}]";
  reprofuse_context* context = NULL;
  reprofuse_checkpoint* checkpoint = NULL;
  reprofuse_model* model = NULL;
  reprofuse_engine* engine = NULL;
  reprofuse_answers* answers = NULL;
  reprofuse_request request;
  reprofuse_update update;
  int32_t* prompt = NULL;
  int result = EXIT_SUCCESS;

  if (argc < 2 || reprofuse_abi_version() != REPROFUSE_ABI_VERSION) {
    fprintf(stderr, "usage: %s MODEL_FOLDER [MESSAGES_AS_JSON], with a library of ABI %d\n", argv[0],
            REPROFUSE_ABI_VERSION);
    return 2;
  }
  check(reprofuse_context_create(NULL, &context));
  check(reprofuse_checkpoint_open(argv[1], &checkpoint));
  check(reprofuse_model_load(context, checkpoint, NULL, &model));
  check(reprofuse_engine_create(model, NULL, &engine));

  check(reprofuse_request_init(&request, sizeof request));
  check(reprofuse_checkpoint_encode_chat(checkpoint, messages, NULL, &prompt, &request.prompt_count));
  request.prompt = prompt;
  request.digest = REPROFUSE_DIGEST_TREE_1;
  check(reprofuse_engine_submit(engine, &request, &answers));
  do {
    check(reprofuse_answers_next(answers, 10000, &update, sizeof update));
    if (update.kind != REPROFUSE_NEXT_UPDATE) continue;
    fputs(update.text, stdout);
    fflush(stdout);
    if (update.finish_reason == REPROFUSE_FINISH_ERROR) {
      fprintf(stderr, "%s\n", update.error);
      result = EXIT_FAILURE;
    } else if (update.finish_reason != REPROFUSE_FINISH_NONE) {
      printf("\ndigest %s\n", update.digest);
    }
  } while (update.kind != REPROFUSE_NEXT_FINISHED);

  reprofuse_free(prompt);
  reprofuse_answers_destroy(answers);
  reprofuse_engine_destroy(engine);
  reprofuse_model_destroy(model);
  reprofuse_checkpoint_destroy(checkpoint);
  reprofuse_context_destroy(context);
  return result;
}
