// The calls of the API: what a body asks of the engine, and how the reply is to look. A call is what a client sends; a
// request is here, as in the engine, one prompt with its choices, of which a call has one or more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model_files.hpp"
#include "engine/request.hpp"
#include "receipt/log.hpp"
#include "receipt/replay.hpp"
#include "server/openai/error.hpp"
#include "server/openai/json.hpp"
#include "text/date.hpp"

namespace reprofuse::server {

// What is known of the model that is served. Set before the first call and constant from then on.
struct ServedFacts {
  std::string id;                                // the name that calls give
  const engine::ModelFiles* files = nullptr;     // outlives every call
  std::string fingerprint;                       // see receipt::system_fingerprint()
  std::int64_t max_positions = 0;                // the longest prompt and answer together
  std::int64_t created = 0;                      // when the server started, in seconds since 1970
  text::DateTime date;                           // what a chat template sees as today
  std::string contract = {};                     // what it computes by
  receipt::LocalArtifacts local_artifacts = {};  // what decides answers, as receipts name it
  receipt::Issuer* issuer = nullptr;             // signs receipts, and outlives every call; null: nobody does
  engine::SpecialTokens special_tokens = engine::SpecialTokens::kAsTokens;  // in contents and prompts, unless they say
};

// Throws the 404 that a wrong model name gets.
void check_model_name(std::string_view name, const ServedFacts& facts);

std::string model_list(const ServedFacts& facts);                         // GET /v1/models
std::string model_card(std::string_view name, const ServedFacts& facts);  // GET /v1/models/NAME; throws a 404

inline constexpr std::int64_t kMaxCallChoices = receipt::kMaxReplyChoices;  // prompts times n
inline constexpr std::size_t kMaxVerifiedChoices = 128;                     // of a reply: each is replayed

// More log-probabilities would take more than some 250 MiB to write: of prompts' tokens, once for each choice that
// shows them, and of the answers of a call that is not streamed, which show more of each.
inline constexpr std::int64_t kMaxPromptLogprobs = std::int64_t{1} << 19;
inline constexpr std::int64_t kMaxAnswerLogprobs = std::int64_t{1} << 18;

inline constexpr std::size_t kMaxStopStrings = 16;
inline constexpr std::size_t kMaxStopBytes = 1024;  // of one: each prompt of a call has its own copy
inline constexpr std::size_t kMaxStopTokens = 1024;

// What the server's operator allows clients to do.
struct CallRules {
  bool allow_priority = false;
  bool report_cached_tokens = false;  // in replies, which tells a client what others have asked
};

// Who asks.
struct Caller {
  std::string_view client = {};      // by whom clients take turns and are limited
  std::string_view cache_salt = {};  // callers of another salt share no prefix of a prompt with this one
};

struct Call {
  std::vector<engine::Request> requests;  // one for each prompt; prompt i of a reply is requests[i]
  bool stream = false;
  bool include_usage = false;         // a last chunk with the usage
  bool continuous_usage = false;      // the usage so far in every chunk
  bool report_cached_tokens = false;  // in the usage
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // tokens of log-probabilities as "token_id:7"
  int logprobs = -1;           // as the client asked; a request's may be more
  int prompt_logprobs = -1;
  std::optional<receipt::ReceiptOptions> receipt;  // for each choice, if there is to be one
  std::vector<std::int32_t> stop_token_ids;        // the client's, which a reply names; not the model's
};

// Fields that cannot change an answer: they name the user, or tell the provider what to store.
inline constexpr std::string_view kHarmlessFields[] = {
    "user",      "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "request_id"};

// Numbers that a list of a body may have: nothing holds more tokens.
inline std::size_t max_numbers(const ServedFacts& facts) {
  return static_cast<std::size_t>(facts.max_positions);
}

// Fields that both kinds have, into `call`; returns the request that each prompt's is made from.
engine::Request read_common_fields(Fields& fields, const ServedFacts& facts, const CallRules& rules,
                                   const Caller& caller, Call& call);

// How a text of a body becomes tokens, and when encoding stops. Reads the fields add_special_tokens and
// special_tokens_in_content.
struct TextRules {
  TextRules(Fields& fields, bool add_special_tokens, const RequestBody& body, const ServedFacts& facts);

  EncodeOptions options;  // at most as many tokens as a text may have; asks the guard of the body
  engine::SpecialTokens special_tokens;
};

// The tokens that encode() gives, which the field `param` holds; throws the 400 of a text of more than the context.
std::vector<std::int32_t> encoded(const std::function<std::optional<std::vector<std::int32_t>>()>& encode,
                                  const ServedFacts& facts, const std::string& param);
std::vector<std::int32_t> encode_prompt(std::string_view text, const TextRules& rules, const ServedFacts& facts,
                                        const std::string& param);

// Throws the 400 of a call whose reply would have too many log-probabilities of prompts: `per_token` for each token of
// a prompt, `times` over.
void check_prompt_logprobs(const Call& call, std::int64_t per_token, std::int64_t times, const std::string& param);

// How long an answer may become: as `given`, for which there must be room, or else `preferred` or what room there is.
struct AnswerLength {
  std::optional<std::int64_t> given;
  std::int64_t preferred;
  std::string field = "max_tokens";  // that gives it
};

// `request` for this prompt, which the field `param` holds. Throws the 400 of one that is empty or too long.
engine::Request request_for(std::vector<std::int32_t> prompt, const engine::Request& request,
                            const AnswerLength& length, const ServedFacts& facts, const std::string& param);

// Calls read(); what the library throws becomes an ApiError about `param`.
template <typename Read>
auto reading(const std::string& param, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw from_library_error(error, param);
  }
}

// POST /v1/completions

struct CompletionCall : Call {
  bool echo = false;
  std::vector<std::string> prompt_texts;  // with echo: as given, or what the token ids stand for
};

// Throws an ApiError, and nothing else, for an invalid body.
CompletionCall parse_completion(const RequestBody& body, const ServedFacts& facts, const CallRules& rules = {},
                                const Caller& caller = {});

// POST /v1/chat/completions

struct ChatCall : Call {};  // one request

// Throws an ApiError, and nothing else, for an invalid body. Tools are refused, since nothing here reads the calls that
// a model writes.
ChatCall parse_chat(const RequestBody& body, const ServedFacts& facts, const CallRules& rules = {},
                    const Caller& caller = {});

// The tokens of a chat by the model's template. Reads messages, add_generation_prompt, chat_template_kwargs and
// their like: `root`, whose fields they are, is left without them.
std::vector<std::int32_t> read_chat_prompt(Json& root, Fields& fields, const RequestBody& body,
                                           const ServedFacts& facts);

// Messages as templates know them: a content of text parts becomes one text, the arguments of tool calls, which the API
// gives as JSON in a string, become values, and nulls are left out. In place: nothing is copied.
void make_template_messages(Json& messages, std::size_t max_numbers, ReadGuard* guard = nullptr);

// POST /tokenize and /detokenize, in vLLM's shapes. Both return the reply's body, and throw an ApiError, and nothing
// else, for an invalid body.
// {"prompt"} or {"messages"} to {"count", "max_model_len", "tokens"}.
std::string tokenize(const RequestBody& body, const ServedFacts& facts);
// {"tokens"} to {"prompt"}, special tokens included.
std::string detokenize(const RequestBody& body, const ServedFacts& facts);

// POST /v1/receipts/verify: is a receipt, or a saved reply, true of the model that is served?

// A receipt, or a choice of a reply.
struct Verified {
  receipt::Evidence evidence;
  std::optional<receipt::Replay> replay;  // of its claim; none: the report is complete
  bool is_replayed = false;
};

struct VerifyCall : Call {                             // requests: those of the replays
  std::vector<std::shared_ptr<Verified>> choices;      // shared with the reply
  std::vector<std::shared_ptr<Verified>> of_requests;  // those to replay, in the order of the requests
};

// Throws an ApiError, and nothing else, for an invalid body. What is no receipt is a verdict, not an error.
VerifyCall parse_verify(const RequestBody& body, const ServedFacts& facts, const engine::Engine& engine,
                        const Caller& caller = {});

}  // namespace reprofuse::server
