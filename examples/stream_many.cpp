// Asks many questions at once and prints who gets how far when: stream_many MODEL_FOLDER
// Then asks each alone: an answer has the same bits whatever is computed beside it, so the digests are the same.
#include <chrono>
#include <cstdio>
#include <reprofuse/reprofuse.hpp>
#include <string>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL_FOLDER\n", argv[0]), 2;
  const auto model = reprofuse::Model::load(reprofuse::Context::cpu(), reprofuse::Checkpoint::open(argv[1]));
  const reprofuse::Engine engine(model, {.max_batch = 16});

  std::vector<reprofuse::Request> requests;
  for (int i = 0; i < 24; ++i) {
    const std::string question = "What is " + std::to_string(11 + 7 * i) + " + " + std::to_string(90 - i) + "?";
    requests.push_back(
        {.prompt = model.checkpoint().encode_chat({{"user", question}}), .digest = reprofuse::DigestKind::kTree1});
    requests.back().sampling = {.temperature = 0.8F, .seed = static_cast<std::uint64_t>(i)};
  }

  std::vector<reprofuse::Answers> streams;
  for (const auto& request : requests) streams.push_back(engine.submit(request));
  std::vector<std::string> texts(streams.size()), digests(streams.size());
  for (std::size_t open = streams.size(); open > 0;) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const auto update = streams[i].next(std::chrono::milliseconds(digests[i].empty() ? 1 : 0));
      if (!update) continue;
      for (const auto& token : update->tokens) texts[i] += token.text;
      if (!update->end) continue;
      digests[i] = update->end->digest;
      std::printf("%2zu ends as number %zu: %s%s\n", i, streams.size() - --open, texts[i].c_str(),
                  update->end->text.c_str());
    }
  }

  std::size_t equal = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) equal += engine.generate(requests[i])[0].digest == digests[i];
  std::printf("%zu of %zu digests are the same when asked alone; %lld passes\n", equal, requests.size(),
              static_cast<long long>(engine.stats().passes));
  return equal == requests.size() ? 0 : 1;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
