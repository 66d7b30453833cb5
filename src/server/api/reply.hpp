// From the engine's updates to what a client reads: one JSON text, or the chunks of a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/request.hpp"
#include "server/api/call.hpp"
#include "server/api/models.hpp"

namespace reprofuse::server {

// What stands around the data of each event of a stream.
inline constexpr std::string_view kEventBegin = "data: ", kEventEnd = "\n\n";

// For one request of a client and one thread: either add() and then body(), or add_chunks() and then add_last_chunks().
//
// A stream has, for each choice: a chunk that opens it (in a chat the role; of completions only with echo, which it
// holds, or return_token_ids); a chunk for each token, with its text and what else was asked of it, left out if there
// is neither; a chunk with the finish_reason and the text that was held back till then. So the chunks of a choice are a
// function of the request, as the answer is, whatever passes the engine made. Only the usage may tell what the prefix
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

}  // namespace reprofuse::server
