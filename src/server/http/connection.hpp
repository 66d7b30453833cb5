// One connection: requests in, responses out. Boost.Asio moves the bytes and Boost.Beast reads HTTP; what is here is
// the order of things. Everything runs on the connection's thread, but for what is said to be for any thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "server/http/framing.hpp"
#include "server/http/limits.hpp"
#include "server/http/message.hpp"
#include "server/http/worker.hpp"

namespace reprofuse::server {

// What connections have in common, and none outlives.
struct ConnectionContext {
  HttpHandler& handler;
  const ConnectionLimits& limits;
  MemoryBudget& memory;
  const std::shared_ptr<ReplyMemory>& replies;
  KeyPlaces& key_places;
  TurnQueue& readers;        // for what may take long: parsing a body
  TurnQueue& large_readers;  // the same for a large one, so that small ones do not wait for it
  TurnQueue& waiters;        // for responses that wait for a disk
  std::function<void(std::uint64_t id)> closed;
  std::atomic<std::size_t>& living;   // connections, those included that have closed and are still held by somebody
  std::atomic<std::size_t>& leaving;  // of them, at Phase::kLeaving
};

class CountedConnection {
 public:
  explicit CountedConnection(std::atomic<std::size_t>& count) : count_(count) { ++count_; }
  ~CountedConnection() { --count_; }
  CountedConnection(const CountedConnection&) = delete;
  CountedConnection& operator=(const CountedConnection&) = delete;

 private:
  std::atomic<std::size_t>& count_;
};

class Connection final : public std::enable_shared_from_this<Connection>, private ReadGuard {
 public:
  enum class Phase : std::uint8_t { kIdle, kHeader, kBody, kResponding, kLeaving, kClosed };
  enum class Admission : std::uint8_t {
    kNormal,
    kBeyondAddress,  // its address has as many as it may: for one request, with a key that has places left
    kReserve,        // for monitoring alone
    kTurnedAway,     // is told so, and nothing else
  };

  struct Origin {
    std::uint64_t id = 0;
    std::string address;
    Admission admission = Admission::kNormal;
  };

  Connection(Socket socket, Origin origin, const ConnectionContext& context, WakeupList& wakeups);

  // For any thread.
  void start();
  const Origin& origin() const { return origin_; }
  Phase phase() const { return phase_; }
  bool has_served() const { return requests_ > 0; }
  bool has_key() const { return has_key_; }  // a request that came here had one
  bool has_place_of_key() const { return place_of_key_.is_held(); }
  bool gives_place() const { return makes_room_ || phase_ >= Phase::kLeaving; }
  bool is_evicted() const { return makes_room_; }
  // Since when a whole response waits for the client to read it. In the future: none does.
  Clock::time_point unread_since() const { return Clock::time_point(Clock::duration(unread_since_)); }
  Clock::time_point since() const { return Clock::time_point(Clock::duration(since_)); }  // when it came there
  void poll();       // looks at the deadline and at whether the client is still there; ten times a second
  void drain();      // closes a connection that waits for a request; others end after the one they are at
  void make_room();  // closes it unless a response to it is being computed
  void abort();      // closes it, whatever it does

  void wake() noexcept;  // by its own thread

 private:
  using ErrorCode = boost::beast::error_code;
  using Parser = boost::beast::http::request_parser<CountedBody>;
  using Next = void (Connection::*)();

  template <typename Action>
  void post(Action action) {  // to its thread; by any thread
    boost::asio::post(socket_.get_executor(),
                      [self = shared_from_this(), action] { self->guard([&] { action(*self); }); });
  }

  template <typename Action>
  void guard(Action action) {  // ends the connection if there is no memory for it
    try {
      if (phase_ != Phase::kClosed) action();
    } catch (const std::exception& error) {
      failed(error);
    }
  }

  void failed(const std::exception& error) noexcept;
  void move_to(Phase phase, std::optional<std::chrono::milliseconds> timeout);
  bool client_gone();
  bool has_unread();  // bytes that the system holds
  void check();
  void give_place();
  void leave_if_silent();
  void late();

  void await_request();
  void read_more();
  void received(const ErrorCode& error, std::size_t bytes);
  void take_bytes();
  void take_header();
  void read_header();
  std::optional<HttpResponse> begin_request();
  void begin_body();
  void await_body();
  void take_body();
  HttpResponse unread_body(const ErrorCode& error) const;
  void ask();
  void ask_handler() noexcept;                    // of a POST: on a reader's thread
  void claim_memory(std::size_t bytes) override;  // of the memory for all, on a reader's thread
  void take_response();

  void send_response(HttpResponse response);
  void refuse(HttpResponse response);  // and end the connection
  std::string head_of(const HttpResponse& response) const;
  void send(std::string head, std::string body, Next next);
  void announce_update() noexcept;  // by any thread
  void advance();
  void take_progress(PendingResponse::State state, std::string events);
  void wait_elsewhere();
  void advance_waiting() noexcept;  // on the waiters' thread
  void take_waited();
  void response_sent();
  void break_off() noexcept;
  void leave();
  void client_left();
  void log_request() noexcept;
  void close() noexcept;

  std::chrono::milliseconds time_for_header() const;

  const CountedConnection counted_;  // first, so that it goes last
  Socket socket_;
  const Origin origin_;
  const ConnectionContext& context_;
  WakeupList& wakeups_;
  std::atomic<Phase> phase_ = Phase::kIdle;
  std::atomic<Clock::rep> since_ = 0;
  std::atomic<Clock::rep> deadline_ = 0;
  std::atomic<Clock::rep> unread_since_ = Clock::duration::max().count();
  std::atomic<int> requests_ = 0;
  std::atomic<bool> has_key_ = false;
  std::atomic<bool> makes_room_ = false;    // is about to be closed
  std::atomic<bool> has_update_ = false;    // and is among wakeups_
  std::atomic<bool> has_response_ = false;  // of the handler, in asked_
  std::atomic<bool> has_waited_ = false;    // and what has come of it is in waited_
  std::atomic<bool> stop_ = false;          // nobody waits for the response any more
  boost::beast::flat_buffer buffer_;
  std::array<std::string, 2> out_;
  MemoryBudget::Grant memory_;     // what the request at hand has of the memory for all
  KeyPlaces::Grant place_of_key_;  // and of its key's places
  bool is_reading_ = false, is_writing_ = false, is_draining_ = false, is_aborted_ = false;
  bool is_asking_ = false, is_waiting_ = false;  // another thread has the request, or the pending response

  // Of the request at hand.
  HeaderScan scan_;
  std::size_t scanned_ = 0, body_read_ = 0;
  std::optional<Parser> parser_;
  HttpRequest request_;
  std::string client_;  // who asks
  RequestLogEntry log_entry_;
  std::optional<HttpResponse> asked_;
  std::shared_ptr<PendingResponse> pending_;
  PendingResponse::State waited_ = PendingResponse::State::kNothingMore;
  std::exception_ptr waited_failure_;
  std::string waited_events_;
  bool has_header_ = false, is_head_ = false, is_http10_ = false, is_stream_ = false;
  bool ends_ = true;  // the connection, with this request
  bool is_logged_ = true;
};

}  // namespace reprofuse::server
