// What the replies of completions and of chats have in common: gathering, counting and the order of chunks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/reply.hpp"
#include "server/api/tokens.hpp"

namespace reprofuse::server {

// What is known of one answer.
struct Choice {
  std::size_t index = 0;                    // among those of all prompts
  std::size_t prompt = 0;                   // the one that it answers
  bool is_open = false;                     // in a stream: something was sent of it
  std::vector<engine::AnswerToken> tokens;  // not in a stream
  std::optional<engine::End> end;
  receipt::Answer steps = {};  // for a receipt
  Json receipt = {};           // once it has ended: the envelope
  Json receipt_opening = {};   // what opens its prompt, if that is hidden
};

class ReplyBase : public Reply {
 public:
  ReplyBase(const Call& call, const ServedFacts& facts, std::string request_id, std::int64_t created);

  void add(std::size_t prompt, const engine::Update& update) final;
  std::string body() const final;
  std::vector<std::string> chunks(std::size_t prompt, const engine::Update& update) final;
  std::vector<std::string> last_chunks() const final;
  bool finished() const final { return failed_ || open_choices_ == 0; }

 protected:
  virtual std::string_view object_name() const = 0;  // "chat.completion"
  virtual std::string_view chunk_name() const = 0;
  virtual Json whole_choice(const Choice& choice) const = 0;
  virtual void complete_body(Json& body) const = 0;  // adds what is not in a choice
  // The chunk that opens a choice, if there is one; whole but for the usage.
  virtual std::optional<Json> opening_chunk(const Choice& choice) const = 0;
  // The choices of chunks: of a token; of the end.
  virtual Json token_choice(const Choice& choice, const engine::AnswerToken& token) = 0;
  virtual Json end_choice(const Choice& choice, const engine::End& end) const = 0;

  const Call& call() const { return call_; }
  const ServedFacts& facts() const { return facts_; }
  const TokenNames& names() const { return names_; }
  const engine::Request& request_of(const Choice& choice) const { return call_.requests[choice.prompt]; }
  // Its tokens with their log-probabilities, when these were asked for.
  const std::vector<engine::PromptToken>& prompt_of(const Choice& choice) const { return prompts_[choice.prompt]; }

  Json chunk_with(Json choice) const;
  // finish_reason and stop_reason, and what else was asked for about an end or a token.
  void add_end(Json& json, const Choice& choice, const engine::End& end) const;
  void add_token_facts(Json& choice, const engine::AnswerToken& token) const;

 private:
  Choice& choice_at(std::size_t prompt, int choice);
  void record(Choice& choice, const engine::Update& update);
  void count_logprobs(const engine::Update& update);
  void gather_prompt(std::size_t prompt, const engine::Update& update);
  bool knows_prompt(std::size_t prompt) const;
  void stream_update(std::size_t prompt, const engine::Update& update, std::vector<std::string>& lines);
  std::string line_of(Json chunk) const;
  Json head(std::string_view object) const;
  Json usage() const;

  Call call_;
  const ServedFacts& facts_;
  TokenNames names_;
  std::string request_id_;
  std::int64_t created_;
  std::vector<Choice> choices_;                            // by index
  std::vector<std::vector<engine::PromptToken>> prompts_;  // of each prompt, with the log-probabilities
  std::vector<std::vector<engine::Update>> held_;          // of each prompt, until its log-probabilities are known
  std::vector<std::int64_t> cached_tokens_;                // of each prompt
  std::int64_t completion_tokens_ = 0;
  std::int64_t logprobs_ = 0;  // of the answers passed to add()
  std::size_t open_choices_;
  bool failed_ = false;
};

}  // namespace reprofuse::server
