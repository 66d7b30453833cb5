// How likely a model finds a text, token by token: score MODEL_FOLDER TEXT
#include <cmath>
#include <cstdio>
#include <reprofuse/reprofuse.hpp>

int main(int argc, char** argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: %s MODEL_FOLDER TEXT\n", argv[0]), 2;
  const auto checkpoint = reprofuse::Checkpoint::open(argv[1]);
  const auto tokenizer = checkpoint.tokenizer();
  const reprofuse::Engine engine(reprofuse::Model::load(reprofuse::Context::cpu(), checkpoint));

  reprofuse::Request request;
  request.prompt = checkpoint.encode_prompt(argv[2]);
  request.max_tokens = 0;  // nothing is generated
  request.prompt_logprobs = 1;
  const reprofuse::Completion scored = engine.generate(request)[0];

  double sum = 0;
  for (const reprofuse::PromptToken& token : scored.prompt) {
    std::printf("%-16s", tokenizer.token_bytes(token.id).c_str());
    if (token.likelihood) {  // the first token has none: nothing comes before it
      const reprofuse::TokenLogprob& best = token.likelihood->top[0];
      sum += token.likelihood->logprob;
      std::printf("%10.6f  rank %lld, best '%s'", token.likelihood->logprob,
                  static_cast<long long>(token.likelihood->rank), tokenizer.token_bytes(best.id).c_str());
    }
    std::printf("\n");
  }
  const std::size_t scores = scored.prompt.size() - 1;
  if (scores == 0) return std::fprintf(stderr, "the text has no token after another\n"), 1;
  std::printf("sum %a, perplexity %.3f over %zu tokens\n", sum, std::exp(-sum / static_cast<double>(scores)), scores);
  return 0;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
