// An engine on a thread of its own: requests from any thread, answers as streams.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse::engine {

struct ServiceOptions {
  std::int64_t max_queue = 1024;  // answers that may wait or run at the same time
  // Of them, those of one client, and the tokens that they may come to, prompts included. 0: seven eighths of
  // max_queue, and beside other clients half of what these leave; four batches of texts of full length. Requests
  // without a client's name have no such limit.
  std::int64_t max_answers_per_client = 0;
  std::int64_t max_tokens_per_client = 0;
};

// Why a request was not taken, for a server to turn into a status.
enum class Refusal { kNeverFits, kFull, kClientFull, kDraining, kStopped };

class Refused : public Error {
 public:
  Refused(Refusal why, const std::string& message) : Refused(why, code_of(why), message) {}
  Refused(Refusal why, ErrorCode code, const std::string& message) : Error(code, message), why_(why) {}
  Refusal why() const { return why_; }

 private:
  static ErrorCode code_of(Refusal why) {
    return why == Refusal::kNeverFits ? ErrorCode::kInvalidArgument : ErrorCode::kBusy;
  }

  Refusal why_;
};

class Service;

// The error of an answer that ends by_memory.
inline constexpr const char* kNoMemoryForAnswer = "there was no memory to complete the answer; try again";

// Tells the one owner of several answers that they have updates, and asks for the memory that these take.
class AnswerNotifier {
 public:
  // False: there is no room for an update of so many bytes, and its request ends in an error. Called on the engine's
  // thread, which must not wait.
  using ClaimMemory = std::function<bool(std::size_t bytes)>;

  explicit AnswerNotifier(bool only_ends = false, ClaimMemory claim = {})
      : only_ends_(only_ends), claim_(std::move(claim)) {}

  bool only_ends() const { return only_ends_; }
  bool has_room_for(const Update& update) const { return !claim_ || claim_(bytes_of(update)); }
  void notify() {
    const std::lock_guard lock(mutex_);
    if (call_) call_();
  }
  // From now on notify() calls this, on the engine's thread: it must not take long, throw or wait for the service.
  void set_callback(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
  }

 private:
  const bool only_ends_;
  const ClaimMemory claim_;
  std::mutex mutex_;
  std::function<void()> call_;
};

// The answers to one request. Dropping them before the end cancels the request.
class Answers {
 public:
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // The next update; none when no update came in time, or when every choice has ended.
  std::optional<Update> next(std::chrono::milliseconds timeout);
  bool finished() const;  // every choice has ended, and next() has returned its end

 private:
  friend class Service;
  struct Inbox;
  Answers(Service& service, std::shared_ptr<Inbox> inbox);

  Service& service_;
  std::optional<RequestId> request_;  // once it was taken
  std::shared_ptr<Inbox> inbox_;
};

class Service {
 public:
  Service(std::unique_ptr<Engine> engine, ServiceOptions options);
  ~Service();  // stops

  // All of the requests or none: throws kInvalidArgument for an invalid one, and Refused when they cannot be
  // taken, after a failure with its code. The service must outlive the answers.
  std::vector<std::unique_ptr<Answers>> submit_all(std::vector<Request> requests,
                                                   const std::shared_ptr<AnswerNotifier>& notifier = nullptr);
  std::unique_ptr<Answers> submit(Request request);

  void stop_taking();  // refuses new requests from now on; those under way go on
  void stop();         // answers under way end in an error after the pass that runs, for which nobody waits here
  bool stopped() const;
  bool wait_until_idle(std::chrono::milliseconds timeout);

  // What the owner knows of and no pass does: ends all answers in this error, and there is no next pass.
  void fail(const std::exception_ptr& why);
  // A pass failed in a way that no request caused; nothing runs any more.
  bool failed() const { return failure() != nullptr; }
  std::exception_ptr failure() const;  // why; null: it has not
  EngineStats stats() const;
  const ServiceOptions& options() const { return options_; }
  const Engine& engine() const { return *engine_; }  // what never changes: model, options, max_positions, check

 private:
  friend class Answers;
  struct Submitted {
    RequestId id;
    Request request;
  };
  struct Load {  // what a client has under way, or asks for
    std::int64_t answers = 0;
    std::int64_t tokens = 0;  // of prompts and of the longest answers that they may have
  };
  using Loads = std::map<std::string, Load>;
  struct Open {  // a request whose answers are awaited
    std::shared_ptr<Answers::Inbox> inbox;
    std::set<int> unfinished;  // choices
    std::int64_t tokens;       // of each
    Loads::iterator client;
  };

  void run();
  void refuse_unless_taken(const Load& wanted) const;
  void refuse_unless_allowed(const Load& wanted, const std::string& client) const;
  void finish(Open& open, std::int64_t answers) noexcept;  // so many of them have ended
  void take_requests();
  void deliver(std::vector<RequestUpdate> updates);
  // These allocate nothing, so that they work where memory has run out:
  void cancel(RequestId id) noexcept;
  void give_up(RequestId id) noexcept;  // for which there is no memory
  void end(std::map<RequestId, Open>::iterator entry, const std::exception_ptr& why, bool by_stop) noexcept;
  void end_all(const std::exception_ptr& why, bool by_stop) noexcept;
  std::map<RequestId, Open>::node_type close(std::map<RequestId, Open>::iterator entry) noexcept;

  std::unique_ptr<Engine> engine_;
  ServiceOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable work_;  // there are requests or cancellations, or it is time to stop
  std::condition_variable idle_;
  RequestId next_id_ = 0;
  std::vector<Submitted> submitted_;
  std::map<RequestId, Open> open_;
  std::map<RequestId, Open> cancelled_;  // what was open, for the engine to drop
  std::int64_t unfinished_ = 0;          // answers of all open requests
  Loads clients_;                        // that have open requests
  EngineStats stats_;
  bool takes_requests_ = true;
  bool stopping_ = false;
  std::exception_ptr failure_;
  const std::exception_ptr stopped_ =
      std::make_exception_ptr(Error(ErrorCode::kInternal, "the engine was stopped before the answer was complete"));
  const std::exception_ptr out_of_memory_;

  std::thread thread_;
};

}  // namespace reprofuse::engine
