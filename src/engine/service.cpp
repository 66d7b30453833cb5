#include "engine/service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <new>
#include <set>
#include <utility>

namespace reprofuse::engine {
namespace {

class NoMemory : public Error {
 public:
  NoMemory() : Error(ErrorCode::kInternal, kNoMemoryForAnswer) {}
};

struct EngineFailure {
  std::string why;
  ErrorCode code;  // kDevice or kInternal: what no request caused and is not the device's is a bug
  bool by_memory;
};

EngineFailure engine_failure_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    const bool by_device = known != nullptr && known->code() == ErrorCode::kDevice;
    const bool by_memory = dynamic_cast<const NoMemory*>(&error) != nullptr;
    return {error.what(), by_device ? ErrorCode::kDevice : ErrorCode::kInternal, by_memory};
  }
}

}  // namespace

struct Answers::Inbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Update> updates;
  int unread_ends;             // choices whose end has not been read
  std::exception_ptr failure;  // after `updates`: what these choices end in
  bool failed_by_stop = false;
  std::set<int> failed_choices;
  std::shared_ptr<AnswerNotifier> notifier;

  Inbox(int choices, std::shared_ptr<AnswerNotifier> to_notify)
      : unread_ends(choices), notifier(std::move(to_notify)) {}

  void put(Update update) {
    if (notifier && !notifier->has_room_for(update)) throw std::bad_alloc();
    const bool notifies = notifier && (update.end || !notifier->only_ends());
    {
      const std::lock_guard lock(mutex);
      updates.push_back(std::move(update));
      arrived.notify_one();
    }
    if (notifies) notifier->notify();
  }

  // Allocates nothing: what the end says is made when it is read.
  void end(std::set<int>&& choices, const std::exception_ptr& why, bool by_stop) noexcept {
    {
      const std::lock_guard lock(mutex);
      failed_choices = std::move(choices);
      failure = why;
      failed_by_stop = by_stop;
      arrived.notify_one();
    }
    if (notifier) notifier->notify();
  }

  // Where it throws, the update is still there.
  std::optional<Update> take() {
    std::optional<Update> update;
    if (!updates.empty()) {
      update = std::move(updates.front());
      updates.pop_front();
    } else if (!failed_choices.empty()) {
      update = failed_end(*failed_choices.begin());
      failed_choices.erase(failed_choices.begin());
    }
    if (update && update->end) --unread_ends;
    return update;
  }

  Update failed_end(int choice) const {
    Update update;
    update.choice = choice;
    update.end.emplace();
    update.end->finish_reason = FinishReason::kError;
    update.end->by_stop = failed_by_stop;
    update.at = std::chrono::steady_clock::now();
    const EngineFailure failed = engine_failure_of(failure);
    update.end->error = failed.why;
    update.end->error_code = failed.code;
    update.end->by_memory = failed.by_memory;
    return update;
  }
};

Answers::Answers(Service& service, std::shared_ptr<Inbox> inbox) : service_(service), inbox_(std::move(inbox)) {}

Answers::~Answers() {
  if (request_ && !finished()) service_.cancel(*request_);
}

std::optional<Update> Answers::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(inbox_->mutex);
  const auto has_something = [&] {
    return !inbox_->updates.empty() || !inbox_->failed_choices.empty() || inbox_->unread_ends == 0;
  };
  if (timeout.count() > 0) inbox_->arrived.wait_for(lock, timeout, has_something);  // which asks the system
  return inbox_->take();
}

bool Answers::finished() const {
  const std::lock_guard lock(inbox_->mutex);
  return inbox_->unread_ends == 0;
}

namespace {

ServiceOptions complete(ServiceOptions options, const Engine& engine) {
  if (options.max_answers_per_client == 0)
    options.max_answers_per_client = std::max<std::int64_t>(1, options.max_queue - options.max_queue / 8);
  if (options.max_tokens_per_client == 0)
    options.max_tokens_per_client = 4 * engine.options().max_batch * engine.max_positions();
  return options;
}

template <typename... Values>
[[noreturn]] void refuse(Refusal why, fmt::format_string<const Values&...> text, const Values&... values) {
  throw Refused(why, fmt::format(text, values...));
}

[[noreturn]] void refuse_after(const EngineFailure& failure) {
  throw Refused(Refusal::kStopped, failure.code, "the engine has failed: " + failure.why);
}

// Of each of its answers.
std::int64_t tokens_of(const Request& request) {
  return static_cast<std::int64_t>(request.prompt.size()) + request.max_tokens;
}

}  // namespace

Service::Service(std::unique_ptr<Engine> engine, ServiceOptions options)
    : engine_(std::move(engine)),
      options_(complete(options, *engine_)),
      stats_(engine_->stats()),
      out_of_memory_(std::make_exception_ptr(NoMemory())),
      thread_([this] { run(); }) {}

Service::~Service() {
  stop();
  thread_.join();
}

std::unique_ptr<Answers> Service::submit(Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  return std::move(submit_all(std::move(requests)).front());
}

std::vector<std::unique_ptr<Answers>> Service::submit_all(std::vector<Request> requests,
                                                          const std::shared_ptr<AnswerNotifier>& notifier) {
  Load wanted;
  for (const Request& request : requests) {
    engine_->check(request);
    wanted.answers += request.choices;
    wanted.tokens += request.choices * tokens_of(request);
  }
  const std::string client = requests.empty() ? std::string() : requests.front().client;

  // Made before the lock is taken, since dropping one takes it too.
  std::vector<std::unique_ptr<Answers>> all;
  all.reserve(requests.size());
  for (const Request& request : requests)
    all.push_back(
        std::unique_ptr<Answers>(new Answers(*this, std::make_shared<Answers::Inbox>(request.choices, notifier))));

  const std::lock_guard lock(mutex_);
  refuse_unless_taken(wanted);
  if (!client.empty()) refuse_unless_allowed(wanted, client);
  submitted_.reserve(submitted_.size() + requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto load = clients_.try_emplace(client).first;
    Open open{all[i]->inbox_, {}, tokens_of(requests[i]), load};
    for (int choice = 0; choice < requests[i].choices; ++choice) open.unfinished.insert(choice);
    open_.emplace(next_id_, std::move(open));
    all[i]->request_ = next_id_;
    unfinished_ += requests[i].choices;
    load->second.answers += requests[i].choices;
    load->second.tokens += requests[i].choices * tokens_of(requests[i]);
    submitted_.push_back({next_id_++, std::move(requests[i])});
  }
  work_.notify_one();
  return all;
}

void Service::refuse_unless_taken(const Load& wanted) const {
  if (failure_) refuse_after(engine_failure_of(failure_));
  if (stopping_) refuse(Refusal::kStopped, "the engine has stopped");
  if (!takes_requests_) refuse(Refusal::kDraining, "no new requests are taken");
  if (wanted.answers > options_.max_queue)
    refuse(Refusal::kNeverFits,
           "{} answers at once, and at most {} are ever under way (max_queue); ask for fewer at a time", wanted.answers,
           options_.max_queue);
  if (unfinished_ + wanted.answers > options_.max_queue)
    refuse(Refusal::kFull, "{} answers are under way and at most {} may be; try again later", unfinished_,
           options_.max_queue);
}

void Service::refuse_unless_allowed(const Load& wanted, const std::string& client) const {
  const auto found = clients_.find(client);
  const Load has = found == clients_.end() ? Load() : found->second;
  const auto check = [](std::int64_t asked, std::int64_t under_way, std::int64_t limit, const char* what) {
    if (asked > limit)
      refuse(Refusal::kNeverFits,
             "{} {} at once, and one client never has more than {} under way (max_{}_per_client); ask for fewer at a "
             "time",
             asked, what, limit, what);
    if (under_way + asked > limit)
      refuse(Refusal::kClientFull,
             "this client has {} {} under way, and with {} more it would have more than {} (max_{}_per_client); try "
             "again later",
             under_way, what, asked, limit, what);
  };
  check(wanted.answers, has.answers, options_.max_answers_per_client, "answers");
  check(wanted.tokens, has.tokens, options_.max_tokens_per_client, "tokens");
  // Beside others, so that a few clients do not fill the queue.
  const std::int64_t others = unfinished_ - has.answers;
  const std::int64_t left = options_.max_queue - others;
  if (others > 0 && has.answers + wanted.answers > left - left / 2)
    refuse(Refusal::kClientFull,
           "this client has {} answers under way, and with {} more it would have more than half of the {} that others "
           "leave; try again later, or ask for fewer at a time",
           has.answers, wanted.answers, left);
}

void Service::cancel(RequestId id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  cancelled_.insert(close(found));
  work_.notify_one();
}

void Service::finish(Open& open, std::int64_t answers) noexcept {
  if (answers == 0) return;  // the client may be forgotten already
  unfinished_ -= answers;
  Load& load = open.client->second;
  load.tokens -= answers * open.tokens;
  load.answers -= answers;
  if (load.answers == 0) clients_.erase(open.client);
}

std::map<RequestId, Service::Open>::node_type Service::close(std::map<RequestId, Open>::iterator entry) noexcept {
  finish(entry->second, static_cast<std::int64_t>(entry->second.unfinished.size()));
  auto closed = open_.extract(entry);
  if (open_.empty()) idle_.notify_all();
  return closed;
}

void Service::stop_taking() {
  const std::lock_guard lock(mutex_);
  takes_requests_ = false;
}

void Service::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  takes_requests_ = false;
  work_.notify_all();
}

bool Service::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

bool Service::wait_until_idle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [&] { return open_.empty(); });
}

void Service::fail(const std::exception_ptr& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = why;
    work_.notify_all();
  }
  end_all(why, false);  // here, since a pass that is under way may never end
}

std::exception_ptr Service::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

EngineStats Service::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  for (const Submitted& entry : submitted_) stats.waiting += entry.request.choices;
  return stats;
}

void Service::run() {
  try {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        work_.wait(lock, [&] {
          return stopping_ || failure_ || !engine_->idle() || !submitted_.empty() || !cancelled_.empty();
        });
        if (failure_) std::rethrow_exception(failure_);
        if (stopping_) break;
      }
      take_requests();
      try {
        deliver(engine_->step());
      } catch (const std::bad_alloc&) {
        do {  // at least one, so that this ends
          give_up(engine_->first_request());
        } while (engine_->stats().running > 0);
      }
    }
    end_all(stopped_, true);
  } catch (const std::exception&) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    end_all(failure_, false);
  }
}

void Service::take_requests() {
  std::vector<Submitted> submitted;
  std::map<RequestId, Open> cancelled;
  {
    const std::lock_guard lock(mutex_);
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
  }
  for (Submitted& entry : submitted) try {
      engine_->add(entry.id, std::move(entry.request));
    } catch (const std::bad_alloc&) {
      give_up(entry.id);
    }
  for (const auto& [id, dropped] : cancelled) engine_->cancel(id);
  const std::lock_guard lock(mutex_);
  stats_ = engine_->stats();
}

void Service::give_up(RequestId id) noexcept {
  engine_->cancel(id);
  const std::lock_guard lock(mutex_);
  if (const auto found = open_.find(id); found != open_.end()) end(found, out_of_memory_, false);
}

void Service::deliver(std::vector<RequestUpdate> updates) {
  const std::lock_guard lock(mutex_);
  stats_ = engine_->stats();
  for (RequestUpdate& entry : updates) {
    const auto found = open_.find(entry.request);
    if (found == open_.end()) continue;  // cancelled meanwhile
    const bool ended = entry.update.end.has_value();
    const int choice = entry.update.choice;
    try {
      found->second.inbox->put(std::move(entry.update));
    } catch (const std::bad_alloc&) {  // without it what comes later would be another answer
      engine_->cancel(entry.request);
      end(found, out_of_memory_, false);
      continue;
    }
    if (ended) finish(found->second, static_cast<std::int64_t>(found->second.unfinished.erase(choice)));
    if (found->second.unfinished.empty()) close(found);
  }
}

void Service::end(std::map<RequestId, Open>::iterator entry, const std::exception_ptr& why, bool by_stop) noexcept {
  Open& open = entry->second;
  finish(open, static_cast<std::int64_t>(open.unfinished.size()));
  open.inbox->end(std::move(open.unfinished), why, by_stop);
  open.unfinished.clear();
  close(entry);
}

void Service::end_all(const std::exception_ptr& why, bool by_stop) noexcept {
  const std::lock_guard lock(mutex_);
  while (!open_.empty()) end(open_.begin(), why, by_stop);
}

}  // namespace reprofuse::engine
