// The engine, its requests and their answers.
#include <chrono>
#include <string>
#include <vector>

#include "capi/boundary.hpp"

using reprofuse::require;
using namespace reprofuse::capi;

struct reprofuse_engine {
  reprofuse::Engine engine;
};

struct reprofuse_answers {
  reprofuse::Answers answers;
  bool undelivered = false;  // `latest` was not shown yet: that failed for want of memory
  // What the latest update points into:
  reprofuse::Update latest = {};
  std::string text = {};
  std::vector<reprofuse_token> tokens = {};
  std::vector<reprofuse_token> prompt = {};
  std::vector<reprofuse::LogitsRoot> logits_roots = {};
  bool tells_logits_roots = false;
};

static_assert(sizeof(reprofuse_token_logprob) == sizeof(reprofuse::TokenLogprob));
static_assert(sizeof(reprofuse::LogitsRoot) == 32);

namespace {

reprofuse_token token_of(std::int32_t id, const std::optional<reprofuse::Likelihood>& likelihood, const char* text,
                         const char* digest) {
  reprofuse_token token{};
  token.id = id;
  token.text = text;
  token.digest = digest;
  if (!likelihood) return token;
  token.has_logprob = 1;
  token.logprob = likelihood->logprob;
  token.rank = likelihood->rank;
  token.top = reinterpret_cast<const reprofuse_token_logprob*>(likelihood->top.data());
  token.top_count = likelihood->top.size();
  return token;
}

std::int32_t finish_reason(reprofuse::FinishReason reason) {
  switch (reason) {
    case reprofuse::FinishReason::kStop: return REPROFUSE_FINISH_STOP;
    case reprofuse::FinishReason::kLength: return REPROFUSE_FINISH_LENGTH;
    case reprofuse::FinishReason::kCancelled:
    case reprofuse::FinishReason::kError: break;
  }
  return REPROFUSE_FINISH_ERROR;
}

reprofuse_status error_status(const reprofuse::End& end) {
  if (end.finish_reason != reprofuse::FinishReason::kError) return REPROFUSE_OK;
  return end.by_memory ? REPROFUSE_OUT_OF_MEMORY : static_cast<reprofuse_status>(end.error_code);
}

reprofuse::Request request_of(const reprofuse_request& from, const reprofuse::Checkpoint& checkpoint) {
  require((from.prompt == nullptr) != (from.prompt_text == nullptr),
          "a request has a prompt of tokens or a prompt_text, and not both");
  reprofuse::Request request;
  if (from.prompt_text != nullptr) {
    request.prompt = checkpoint.encode_prompt(from.prompt_text);
  } else {
    request.prompt.assign(from.prompt, from.prompt + from.prompt_count);
  }
  request.sampling = sampling(from.sampling);
  request.max_tokens = from.max_tokens;
  request.choices = from.choices;
  request.priority = from.priority;
  if (from.stop_tokens != nullptr)
    request.stop_tokens.emplace(from.stop_tokens, from.stop_tokens + from.stop_token_count);
  for (const char* stop : list(from.stop_strings, from.stop_string_count, "stop strings"))
    request.stop_strings.emplace_back(required_text(stop, "stop string"));
  request.keep_stop_string = from.keep_stop_string != 0;
  request.skip_special_tokens = from.skip_special_tokens != 0;
  request.logprobs = from.logprobs;
  request.prompt_logprobs = from.prompt_logprobs;
  require(from.digest >= REPROFUSE_DIGEST_NONE && from.digest <= REPROFUSE_DIGEST_CHAIN_1,
          "digest = {} is none of the REPROFUSE_DIGEST_ values", from.digest);
  request.digest = static_cast<reprofuse::DigestKind>(from.digest);
  return request;
}

// Fills `to` with pointers into `self`, which holds the update.
void show(reprofuse_answers& self, reprofuse_update& to) {
  const reprofuse::Update& update = self.latest;
  self.text.clear();
  self.tokens.clear();
  self.prompt.clear();
  self.logits_roots.clear();
  for (const auto& token : update.prompt) self.prompt.push_back(token_of(token.id, token.likelihood, "", ""));
  for (const auto& token : update.tokens) {
    self.tokens.push_back(token_of(token.id, token.likelihood, token.text.c_str(), token.digest.c_str()));
    self.text += token.text;
    if (self.tells_logits_roots) self.logits_roots.push_back(token.logits_root);
  }
  to.kind = REPROFUSE_NEXT_UPDATE;
  to.choice = update.choice;
  to.cached_prompt_tokens = update.cached_prompt_tokens;
  to.stop_token = -1;
  to.digest = "";
  to.error = "";
  if (update.end) {
    self.text += update.end->text;
    to.finish_reason = finish_reason(update.end->finish_reason);
    to.stop_token = update.end->stop_token.value_or(-1);
    to.stop_string = update.end->stop_string ? update.end->stop_string->c_str() : nullptr;
    to.digest = update.end->digest.c_str();
    to.error = update.end->error.c_str();
    to.error_status = error_status(*update.end);
    if (self.tells_logits_roots && update.end->stop_token) self.logits_roots.push_back(update.end->logits_root);
  }
  to.text = self.text.c_str();
  to.text_bytes = self.text.size();
  to.tokens = self.tokens.data();
  to.token_count = self.tokens.size();
  to.prompt = self.prompt.data();
  to.prompt_count = self.prompt.size();
  to.logits_roots = self.logits_roots.empty() ? nullptr : self.logits_roots.data()->data();
  to.logits_root_count = self.logits_roots.size();
}

}  // namespace

reprofuse_status reprofuse_engine_options_init(reprofuse_engine_options* options, size_t size) {
  return guarded([&] {
    const reprofuse::EngineOptions defaults;
    init_struct(options, size, "struct of engine options", [&](auto& made) {
      made.kv_bytes = defaults.kv_bytes;
      made.max_batch = defaults.max_batch;
      made.max_rows = defaults.max_rows;
      made.max_queue = defaults.max_queue;
      made.prefix_cache = defaults.prefix_cache ? 1 : 0;
      made.speculation = defaults.speculation;
    });
  });
}

reprofuse_status reprofuse_engine_create(const reprofuse_model* model, const reprofuse_engine_options* options,
                                         reprofuse_engine** engine) {
  return create(engine, "engine", [&] {
    reprofuse::EngineOptions made;
    if (options != nullptr) {
      const reprofuse_engine_options given = read_struct(options, "struct of engine options");
      made = {.kv_bytes = given.kv_bytes,
              .max_batch = given.max_batch,
              .max_rows = given.max_rows,
              .max_queue = given.max_queue,
              .prefix_cache = given.prefix_cache != 0,
              .speculation = given.speculation};
    }
    return new reprofuse_engine{reprofuse::Engine(unwrap(model, "model").model, made)};
  });
}

void reprofuse_engine_destroy(reprofuse_engine* engine) {
  delete engine;
}

reprofuse_status reprofuse_engine_max_positions(const reprofuse_engine* engine, int64_t* positions) {
  return guarded([&] { receiver(positions, "number of positions") = unwrap(engine, "engine").engine.max_positions(); });
}

reprofuse_status reprofuse_engine_get_stats(const reprofuse_engine* engine, reprofuse_engine_stats* stats,
                                            size_t size) {
  return guarded([&] {
    const reprofuse::EngineStats from = unwrap(engine, "engine").engine.stats();
    fill_struct(stats, size, "struct of engine stats", [&](auto& to) {
      to.running = from.running;
      to.waiting = from.waiting;
      to.pages = from.pages;
      to.pages_in_use = from.pages_in_use;
      to.passes = from.passes;
      to.prompt_tokens = from.prompt_tokens;
      to.queried_prompt_tokens = from.queried_prompt_tokens;
      to.cached_prompt_tokens = from.cached_prompt_tokens;
      to.generated_tokens = from.generated_tokens;
      to.preemptions = from.preemptions;
      to.guessed_tokens = from.guessed_tokens;
      to.accepted_tokens = from.accepted_tokens;
    });
  });
}

reprofuse_status reprofuse_request_init(reprofuse_request* request, size_t size) {
  return guarded([&] {
    const reprofuse::Request defaults;
    init_struct(request, size, "request", [&](auto& made) {
      made.sampling = sampling(defaults.sampling);
      made.max_tokens = defaults.max_tokens;
      made.choices = defaults.choices;
      made.skip_special_tokens = defaults.skip_special_tokens ? 1 : 0;
      made.logprobs = defaults.logprobs;
      made.prompt_logprobs = defaults.prompt_logprobs;
    });
  });
}

reprofuse_status reprofuse_engine_submit(const reprofuse_engine* engine, const reprofuse_request* request,
                                         reprofuse_answers** answers) {
  return create(answers, "answers", [&] {
    const reprofuse::Engine& self = unwrap(engine, "engine").engine;
    const reprofuse::Request made = request_of(read_struct(request, "request"), self.model().checkpoint());
    return new reprofuse_answers{.answers = self.submit(made),
                                 .tells_logits_roots = made.digest == reprofuse::DigestKind::kTree1};
  });
}

void reprofuse_answers_destroy(reprofuse_answers* answers) {
  delete answers;
}

reprofuse_status reprofuse_answers_cancel(reprofuse_answers* answers) {
  return guarded([&] {
    reprofuse_answers& self = unwrap(answers, "handle of answers");
    self.answers.cancel();
    self.undelivered = false;
  });
}

reprofuse_status reprofuse_answers_next(reprofuse_answers* answers, int64_t timeout_ms, reprofuse_update* update,
                                        size_t size) {
  return guarded([&] {
    reprofuse_answers& self = unwrap(answers, "handle of answers");
    fill_struct(update, size, "struct of an update", [&](auto& to) {
      require(timeout_ms >= 0, "a timeout of {} ms is below 0", timeout_ms);
      if (!self.undelivered) {
        if (auto next = self.answers.next(std::chrono::milliseconds(timeout_ms))) {
          self.latest = std::move(*next);
          self.undelivered = true;
        }
      }
      if (self.undelivered) {
        show(self, to);
        self.undelivered = false;
      } else {
        to.kind = self.answers.finished() ? REPROFUSE_NEXT_FINISHED : REPROFUSE_NEXT_NOTHING;
      }
    });
  });
}
