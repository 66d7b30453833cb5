// Asks a model a question and prints the answer as it comes: generate MODEL_FOLDER [QUESTION]
#include <chrono>
#include <cstdio>
#include <reprofuse/reprofuse.hpp>
#include <string>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL_FOLDER [QUESTION]\n", argv[0]);
    return 2;
  }
  try {
    const auto checkpoint = reprofuse::Checkpoint::open(argv[1]);
    const auto model = reprofuse::Model::load(reprofuse::Context::cpu(), checkpoint);
    const reprofuse::Engine engine(model);

    reprofuse::Request request;
    request.prompt = checkpoint.encode_chat({{"user", argc > 2 ? argv[2] : "What is 12 + 30?"}});
    request.sampling = checkpoint.suggested_sampling();
    request.digest = reprofuse::DigestKind::kTree1;
    reprofuse::Answers answers = engine.submit(request);
    while (!answers.finished()) {
      const auto update = answers.next(std::chrono::seconds(10));
      if (!update) continue;
      for (const auto& token : update->tokens) std::fputs(token.text.c_str(), stdout);
      std::fflush(stdout);
      if (!update->end) continue;
      if (update->end->finish_reason == reprofuse::FinishReason::kError) throw std::runtime_error(update->end->error);
      std::printf("%s\ndigest %s\n", update->end->text.c_str(), update->end->digest.c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
