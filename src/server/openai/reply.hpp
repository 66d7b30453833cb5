// From the engine's updates to what a client reads: one JSON text, or the chunks of a stream. A chunk is here an event
// of a stream, by OpenAI's word (`chat.completion.chunk`): neither the tokens of a job in a pass, as in the engine, nor
// a piece of a body in HTTP's chunked coding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/request.hpp"
#include "server/openai/call.hpp"
#include "server/openai/error.hpp"
#include "server/openai/json.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse::server {

// Tokens and their log-probabilities as replies show them.
class TokenNames {
 public:
  TokenNames(const ServedFacts& facts, bool as_ids) : format_(facts.files->text()), as_ids_(as_ids) {}

  // Its text; "bytes:\xe2\x80" when that is no whole characters, so that different tokens have different names;
  // "token_id:7" when it has no text, or as asked.
  std::string name(std::int32_t id) const;
  // [226, 128], or null when it has no text.
  void write_bytes(JsonWriter& json, std::int32_t id) const;

 private:
  bool has_text(std::int32_t id) const;

  const engine::TextFormat& format_;
  bool as_ids_;
};

// Where in the text a token begins, counted in characters.
class TextPosition {
 public:
  TextPosition(const ServedFacts& facts, bool skip_special_tokens, std::size_t start);
  std::size_t next(std::int32_t id);  // the position of this token; the one after it begins where it ends

 private:
  std::optional<text::StreamDetokenizer> detokenizer_;
  std::size_t position_;
};

std::size_t count_characters(std::string_view utf8);

// Where in an echoed prompt each of its tokens begins. A special token has a place there if the text spells it.
class EchoPosition {
 public:
  EchoPosition(const ServedFacts& facts, std::string_view text);
  std::size_t next(std::int32_t id);

 private:
  const engine::TextFormat& format_;
  std::optional<text::StreamDetokenizer> detokenizer_;
  std::string_view rest_;  // of the text
  std::size_t position_ = 0;
};

// Every bit of it, as a number that JSON has: no likelihood at all is -9999, as OpenAI and vLLM have it.
double shown_logprob(float logprob);

// An entry of a chat's logprobs.content, with the `max_top` likeliest tokens.
void write_chat_logprob(JsonWriter& json, std::int32_t id, const engine::Likelihood& likelihood, int max_top,
                        const TokenNames& names);

struct PlacedToken {
  std::int32_t id;
  const std::optional<engine::Likelihood>& likelihood;
  std::size_t offset;  // in the text, counted in characters
};

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of a completion. A token is among its top_logprobs even
// if it is not among the `max_top` likeliest.
void write_completion_logprobs(JsonWriter& json, const std::vector<PlacedToken>& tokens, int max_top,
                               const TokenNames& names);

// The field "prompt_logprobs" as vLLM has it: null, then {"7": {"logprob", "rank", "decoded_token"}} for each token and
// the likeliest in its place.
void write_prompt_logprobs(JsonWriter& json, const std::vector<engine::PromptToken>& prompt, int max_top,
                           const TokenNames& names);

// What stands around the data of each event of a stream.
inline constexpr std::string_view kEventBegin = "data: ", kEventEnd = "\n\n";

// For one call and one thread: either add() and then body(), or add_chunks() and then add_last_chunks().
//
// A stream has, for each choice: a chunk that opens it (in a chat the role; of completions only with echo, which it
// holds, or return_token_ids); a chunk for each token, with its text and what else was asked of it, left out if there
// is neither; a chunk with the finish_reason and the text that was held back till then. So the chunks of a choice are a
// function of the call, as the answer is, whatever passes the engine made. Only the usage may tell what the prefix
// cache held, if the server is configured to report it.
class Reply {
 public:
  virtual ~Reply() = default;

  // An update of Call::requests[prompt]. Throws the ApiError of answers with more log-probabilities than a reply may
  // have.
  virtual void add(std::size_t prompt, engine::Update update) = 0;
  // The whole answer, once finished. Throws the ApiError of an answer that the engine could not finish.
  virtual std::string body() const = 0;

  // Adds the events to send now, perhaps none. An answer that the engine could not finish is an error object, the last
  // event of the stream.
  virtual void add_chunks(std::size_t prompt, engine::Update update, std::string& events) = 0;
  // Once finished: the usage, if it was asked for and nothing failed. "[DONE]" is the server's to send.
  virtual void add_last_chunks(std::string& events) const = 0;

  virtual std::size_t body_bytes() const { return 0; }    // about what the body will have, where it may be large
  virtual std::size_t take_receipt_bytes() { return 0; }  // of the receipts that were made since the last call

  virtual bool finished() const = 0;  // every choice of every prompt has ended, or one has failed
};

// `request_id` is the reply's "id", `created` seconds since 1970. Keeps what it needs of the call; `facts` must outlive
// the reply.
std::unique_ptr<Reply> make_reply(const CompletionCall& call, const ServedFacts& facts, std::string request_id,
                                  std::int64_t created);
std::unique_ptr<Reply> make_reply(const ChatCall& call, const ServedFacts& facts, std::string request_id,
                                  std::int64_t created);
// One JSON text; finished at once where there is nothing to replay.
std::unique_ptr<Reply> make_reply(const VerifyCall& call, const ServedFacts& facts);

// What the replies of completions and of chats have in common: gathering, counting and the order of chunks.

// What is known of one answer.
struct Choice {
  std::size_t index = 0;                    // among those of all prompts
  std::size_t prompt = 0;                   // the one that it answers
  bool is_open = false;                     // in a stream: something was sent of it
  std::vector<engine::AnswerToken> tokens;  // not in a stream
  std::optional<engine::End> end;
  receipt::AnswerSteps steps = {};   // for a receipt
  std::string receipt = "null";      // once it has ended: the envelope, as JSON
  std::string receipt_opening = {};  // what opens its prompt, if that is hidden; the same
};

ApiError failure_of(const engine::End& end);  // with FinishReason::kError: what a client is told

class ReplyBase : public Reply {
 public:
  ReplyBase(const Call& call, const ServedFacts& facts, std::string request_id, std::int64_t created);

  void add(std::size_t prompt, engine::Update update) final;
  std::string body() const final;
  void add_chunks(std::size_t prompt, engine::Update update, std::string& events) final;
  void add_last_chunks(std::string& events) const final;
  std::size_t body_bytes() const final;
  std::size_t take_receipt_bytes() final { return std::exchange(receipt_bytes_, 0); }
  bool finished() const final { return failed_ || open_choices_ == 0; }

 protected:
  virtual std::string_view object_name() const = 0;  // "chat.completion"
  virtual std::string_view chunk_name() const = 0;
  virtual bool has_opening() const = 0;  // a chunk that opens a choice
  // The fields of a choice: of a reply that is no stream; of the chunks that open it, bring a token, or end it.
  virtual void write_whole(JsonWriter& json, const Choice& choice) const = 0;
  virtual void write_opening(JsonWriter& json, const Choice& choice) const = 0;
  virtual void write_token(JsonWriter& json, const Choice& choice, const engine::AnswerToken& token) = 0;
  virtual void write_end(JsonWriter& json, const Choice& choice, const engine::End& end) const = 0;
  virtual void write_prompt(JsonWriter& json) const = 0;  // what stands beside the choices

  const Call& call() const { return call_; }
  const ServedFacts& facts() const { return facts_; }
  const TokenNames& names() const { return names_; }
  const engine::Request& request_of(const Choice& choice) const { return call_.requests[choice.prompt]; }
  // Its tokens with their log-probabilities, when these were asked for.
  const std::vector<engine::PromptToken>& prompt_of(const Choice& choice) const { return prompts_[choice.prompt]; }

  // finish_reason and stop_reason, and what else was asked for about an end or a token.
  void write_end_facts(JsonWriter& json, const Choice& choice, const engine::End& end) const;
  void write_token_facts(JsonWriter& json, const engine::AnswerToken& token) const;

 private:
  Choice& choice_at(std::size_t prompt, int choice);
  void record(Choice& choice, const engine::Update& update);
  void count_logprobs(const engine::Update& update);
  void gather_prompt(std::size_t prompt, engine::Update& update);
  bool knows_prompt(std::size_t prompt) const;
  void stream_update(std::size_t prompt, const engine::Update& update, std::string& events);
  template <typename Content>
  void add_chunk(std::string& events, Content content) const;
  void write_head(JsonWriter& json, std::string_view object) const;
  void write_usage(JsonWriter& json) const;

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
  std::size_t receipt_bytes_ = 0;  // of those that are kept, since they were last asked for
  bool failed_ = false;
};

}  // namespace reprofuse::server
