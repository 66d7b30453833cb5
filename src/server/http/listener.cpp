#include "server/http/listener.hpp"

#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "server/http/connection.hpp"
#include "server/http/worker.hpp"

namespace reprofuse::server {
namespace {

namespace net = boost::asio;
using net::ip::tcp;
using std::chrono::milliseconds;

constexpr int kBacklog = 1024;                // connections that wait to be accepted; the system may allow fewer
constexpr std::size_t kReserve = 8;           // places beyond the limit, for monitoring alone
constexpr std::size_t kReservePerClient = 2;  // of them, so that one address cannot take all
constexpr milliseconds kBetweenLooks{100};
constexpr milliseconds kBetweenReturns{1000};  // of memory to the system, which stops whoever allocates for a moment
constexpr milliseconds kRest{20};              // when the system has no descriptor or memory for another connection

// Raises the limit of open files as needed. Returns how many may wait for their header beyond their address's limit.
std::size_t allow_descriptors(const ConnectionLimits& limits) {
  constexpr rlim_t kOthers = 128;
  const rlim_t least = limits.connections + limits.beyond_addresses() + kReserve + kOthers;
  rlimit limit = {};
  require(getrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit of open files cannot be read");
  require(limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= least,
          "{} connections need {} open files, and the hard limit (ulimit -Hn) is {}", limits.connections, least,
          limit.rlim_max);
  const rlim_t wanted = std::min<rlim_t>(least + 2 * limits.connections + limits.leaving, limit.rlim_max);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit of open files cannot be raised to {}", wanted);
  }
  return std::min<std::size_t>(limits.connections, (limit.rlim_cur - least) / 4);
}

SocketAddress address_of(const tcp::endpoint& endpoint) {
  const net::ip::address ip = endpoint.address();
  const bool is_mapped = ip.is_v6() && ip.to_v6().is_v4_mapped();
  const bool is_loopback =
      is_mapped ? net::ip::make_address_v4(net::ip::v4_mapped, ip.to_v6()).is_loopback() : ip.is_loopback();
  return {ip.to_string(), endpoint.port(), is_loopback};
}

// Who is one client: an address, or with IPv6 the network of 64 bits that one subscriber has.
std::string client_address_of(const tcp::endpoint& endpoint) {
  const net::ip::address ip = endpoint.address();
  if (!ip.is_v6() || ip.to_v6().is_loopback()) return ip.to_string();
  auto bytes = ip.to_v6().to_bytes();
  if (ip.to_v6().is_v4_mapped()) return net::ip::make_address_v4(net::ip::v4_mapped, ip.to_v6()).to_string();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return net::ip::make_address_v6(bytes).to_string();
}

tcp::acceptor listen_on(net::io_context& io, const std::vector<SocketAddress>& addresses) {
  boost::system::error_code error;
  for (const SocketAddress& address : addresses) {
    const tcp::endpoint endpoint(net::ip::make_address(address.ip), address.port);
    tcp::acceptor acceptor(io);
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
    if (!error && endpoint.address().is_v6()) acceptor.set_option(net::ip::v6_only(false), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.non_blocking(true, error);
    if (!error) acceptor.listen(kBacklog, error);
    if (!error) return acceptor;
  }
  fail(ErrorCode::kUnsupported, "{} cannot be listened on: {}{}", addresses.back().to_string(), error.message(),
       error == net::error::address_in_use
           ? "; another program listens there, and --port takes another port (0: any free one)"
           : "");
}

}  // namespace

std::string SocketAddress::to_string() const {
  return ip.find(':') == std::string::npos ? fmt::format("{}:{}", ip, port) : fmt::format("[{}]:{}", ip, port);
}

std::vector<SocketAddress> resolve_address(const std::string& host, int port) {
  net::io_context io;
  boost::system::error_code error;
  const auto found = tcp::resolver(io).resolve(host, std::to_string(port), tcp::resolver::passive, error);
  require(!error && !found.empty(), "host '{}' has no address: {}", host, error.message());
  std::vector<SocketAddress> addresses;
  for (const auto& entry : found) addresses.push_back(address_of(entry.endpoint()));
  return addresses;
}

// Owns the connections. Each is run by one thread.
class ListenerState {
 public:
  ListenerState(const std::vector<SocketAddress>& addresses, ConnectionLimits limits, HttpHandler& handler)
      : limits_(limits),
        max_waiting_(std::max<std::size_t>(1, allow_descriptors(limits))),
        memory_(limits.memory_bytes),
        replies_(std::make_shared<ReplyMemory>(limits.reply_bytes)),
        key_places_(limits.of_one_address()),
        acceptor_(listen_on(acceptor_io_, addresses)),
        address_(address_of(acceptor_.local_endpoint())),
        context_{handler,        limits_,     memory_,
                 replies_,       key_places_, readers_,
                 large_readers_, waiters_,    [this](std::uint64_t id) { forget(id); },
                 living_,        leaving_} {}

  ~ListenerState() {
    stop_accepting();
    for (bool is_empty = false; !is_empty; is_empty = wait_until_closed(kBetweenLooks))
      each([](Connection& connection) { connection.abort(); });
    is_over_ = true;
    if (watcher_.joinable()) watcher_.join();
    for (TurnQueue* queue : {&readers_, &large_readers_, &waiters_}) queue->stop();
    for (std::thread& thread : task_threads_) thread.join();
    for (Worker& worker : workers_) worker.join();
    // A thread of the engine may hold one that has closed, to tell it of an update.
    for (; living_ != 0; std::this_thread::sleep_for(milliseconds(1)))
      for (Worker& worker : workers_) worker.run_once_more();
  }

  void start() {
    for (Worker& worker : workers_) worker.start();
    for (TurnQueue* queue : {&readers_, &readers_, &large_readers_, &waiters_})  // a thread each
      task_threads_.emplace_back([queue] { queue->run(); });
    watcher_ = std::thread([this] { watch(); });
  }

  void stop_accepting() {
    {
      const std::lock_guard lock(mutex_);
      if (!is_stopped_) shutdown(acceptor_.native_handle(), SHUT_RDWR);  // which wakes the watcher
      is_stopped_ = true;  // not before: the watcher closes it then, and its number may be another's
    }
    while (watcher_.joinable() && !is_closed_) std::this_thread::sleep_for(milliseconds(1));
    each([](Connection& connection) { connection.drain(); });
  }

  bool wait_until_closed(milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return connections_.empty(); });
  }

  HttpListener::Counts counts() const {
    const std::lock_guard lock(mutex_);
    HttpListener::Counts counts = counts_;
    counts.connections = places_in_use();
    counts.reply_bytes = replies_->in_use();
    return counts;
  }

  const SocketAddress& address() const { return address_; }

  using Admission = Connection::Admission;
  using Phase = Connection::Phase;

  // `worker` is the one whose socket it is.
  void admit(Socket socket, const std::string& client, Worker& worker) {
    std::shared_ptr<Connection> connection;
    {
      const std::lock_guard lock(mutex_);
      const std::optional<Admission> admission = admission_for(client);
      if (!admission || *admission == Admission::kTurnedAway) ++counts_.refused;
      if (!admission) return;
      const Connection::Origin origin{.id = next_id_, .address = client, .admission = *admission};
      connection = std::make_shared<Connection>(std::move(socket), origin, context_, worker.wakeups());
      connections_.emplace(next_id_++, connection);
      if (*admission == Admission::kTurnedAway) ++turned_away_;
    }
    connection->start();
  }

  Worker& next_worker() { return workers_[++turn_ % HttpListener::kThreads]; }

 private:
  // Accepts connections, and checks each one ten times a second, without a timer each. Calls poll() and not Asio,
  // whose operations need memory: this thread must go on without.
  void watch() {
    Clock::time_point next_look;
    while (!is_over_) {
      if (is_stopped_ && !is_closed_) {
        boost::system::error_code ignored;
        acceptor_.close(ignored);
        is_closed_ = true;
      }
      pollfd entry = {.fd = is_closed_ ? -1 : acceptor_.native_handle(), .events = POLLIN, .revents = 0};
      if (poll(&entry, 1, static_cast<int>(kBetweenLooks.count())) > 0 && !is_stopped_) accept();
      if (Clock::now() < next_look) continue;
      each([](Connection& connection) { connection.poll(); });
      return_memory();
      next_look = Clock::now() + kBetweenLooks;
    }
  }

  // After large requests, of whose memory the C library keeps small blocks for the threads that freed them.
  void return_memory() {
    constexpr std::size_t kMuch = std::size_t{16} << 20;
    max_read_ = std::max(max_read_, memory_.take_peak());
    const auto now = Clock::now();
    if (max_read_ < kMuch || memory_.in_use() > max_read_ / 2 || now < next_return_) return;
    malloc_trim(0);
    max_read_ = 0;
    next_return_ = now + kBetweenReturns;
  }

  void accept() {
    try {
      Worker& worker = next_worker();
      Socket socket = worker.new_socket();
      boost::system::error_code error;
      acceptor_.accept(socket, error);
      if (error == net::error::would_block) return;          // it has left already
      if (error) return std::this_thread::sleep_for(kRest);  // no descriptor or memory: those who wait will wait
      const tcp::endpoint peer = socket.remote_endpoint(error);
      if (!error) admit(std::move(socket), client_address_of(peer), worker);
    } catch (const std::exception&) {  // no memory for it: it is closed
      std::this_thread::sleep_for(kRest);
    }
  }

  template <typename Action>
  void each(Action action) {
    std::uint64_t next = 0;
    for (;;) {
      std::shared_ptr<Connection> connection;
      {
        const std::lock_guard lock(mutex_);
        const auto found = connections_.lower_bound(next);
        if (found == connections_.end()) return;
        connection = found->second;
        next = found->first + 1;
      }
      try {
        action(*connection);
      } catch (const std::exception&) {  // no memory now: it will be looked at again
      }
    }
  }

  std::size_t places_in_use() const { return connections_.size() - turned_away_; }

  // With the mutex held, as those below.
  std::optional<Admission> admission_for(const std::string& client) {
    if (has_room(Admission::kNormal, client, limits_.connections, limits_.of_one_address())) return Admission::kNormal;
    if (context_.handler.has_keys() && has_room_beyond_address()) return Admission::kBeyondAddress;
    if (has_room(Admission::kReserve, client, kReserve, kReservePerClient)) return Admission::kReserve;
    return turned_away_ < limits_.leaving ? std::optional(Admission::kTurnedAway) : std::nullopt;
  }

  // If max_waiting_ connections wait for their header, the oldest of them is told to leave. It stays if its header has
  // come and was not read yet, so there may be twice as many, with those that are being refused or are for monitoring.
  bool has_room_beyond_address() {
    std::size_t waiting = 0, others = 0, served = 0;
    Connection* slowest = nullptr;
    for (const auto& [id, connection] : connections_) {
      if (connection->origin().admission != Admission::kBeyondAddress || connection->phase() >= Phase::kLeaving)
        continue;
      const bool is_served = connection->has_place_of_key();  // read once: its own thread may change it meanwhile
      const bool waits = !is_served && connection->phase() < Phase::kBody && !connection->gives_place();
      ++(is_served ? served : waits ? waiting : others);
      if (waits && slowest == nullptr) slowest = connection.get();
    }
    if (served >= limits_.beyond_addresses() || waiting + others >= 2 * max_waiting_) return false;
    if (waiting >= max_waiting_) slowest->make_room();  // which is at least one
    return true;
  }

  using Taken = std::map<std::string_view, std::size_t>;  // places, by address

  bool has_room(Admission admission, const std::string& client, std::size_t limit, std::size_t limit_of_client) {
    Taken taken;
    std::size_t all = 0;
    for (const auto& [id, connection] : connections_) {
      if (connection->origin().admission != admission || connection->gives_place()) continue;
      ++taken[connection->origin().address];
      ++all;
    }
    const bool is_within = taken[client] < limit_of_client;
    return (is_within && all < limit) || make_room(admission, client, !is_within, taken);
  }

  // Closes one connection of this admission: that which has waited for a request, or for the rest of one, for longest;
  // else one whose client does not read the response, first without a key, then of the address with most places. A
  // response to a key gives way only to a client with fewer places. False: none has waited long enough to be closed.
  bool make_room(Admission admission, const std::string& client, bool only_own, Taken& taken) {
    Connection* chosen = nullptr;
    std::tuple<bool, bool, std::size_t, Clock::time_point> best;
    const auto is_late = [&, now = Clock::now()](Clock::time_point since) { return now - since > limits_.grace; };
    for (const auto& [id, connection] : connections_) {
      const auto& [_, address, its_admission] = connection->origin();
      if (its_admission != admission || connection->gives_place() || (only_own && address != client)) continue;
      const auto phase = connection->phase();
      const bool is_unread = phase == Phase::kResponding && is_late(connection->unread_since());
      const bool is_waiting = phase == Phase::kIdle && connection->has_served();
      const bool is_slow = phase < Phase::kResponding && is_late(connection->since());
      if (!is_unread && !is_waiting && !is_slow) continue;
      const bool has_key = is_unread && connection->has_key();
      if (has_key && taken[address] <= taken[client]) continue;
      const std::size_t places_of_others = is_unread ? connections_.size() - taken[address] : 0;
      const auto since = is_unread ? connection->unread_since() : connection->since();
      const std::tuple rank(is_unread, has_key, places_of_others, since);
      if (chosen != nullptr && rank >= best) continue;
      chosen = connection.get();
      best = rank;
    }
    if (chosen == nullptr) return false;
    chosen->make_room();
    return true;
  }

  void forget(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    if (found->second->is_evicted()) ++counts_.evicted;
    if (found->second->origin().admission == Admission::kTurnedAway) --turned_away_;
    connections_.erase(found);
    changed_.notify_all();
  }

  ConnectionLimits limits_;
  const std::size_t max_waiting_;  // for their header, beyond an address
  MemoryBudget memory_;
  std::shared_ptr<ReplyMemory> replies_;  // which responses under way may outlive
  KeyPlaces key_places_;
  net::io_context acceptor_io_;
  tcp::acceptor acceptor_;
  std::array<Worker, HttpListener::kThreads> workers_;
  TurnQueue readers_, large_readers_, waiters_;
  std::vector<std::thread> task_threads_;
  std::atomic<std::size_t> turn_ = 0;
  SocketAddress address_;
  std::atomic<std::size_t> living_ = 0, leaving_ = 0;
  ConnectionContext context_;
  std::atomic<bool> is_stopped_ = false, is_closed_ = false, is_over_ = false;  // accepting, the acceptor, and all
  std::thread watcher_;
  std::size_t max_read_ = 0;  // bytes of requests at once, since memory was last given back
  Clock::time_point next_return_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::size_t turned_away_ = 0;
  std::uint64_t next_id_ = 0;
  HttpListener::Counts counts_;
};

HttpListener::HttpListener(const std::vector<SocketAddress>& addresses, const ConnectionLimits& limits,
                           HttpHandler& handler)
    : state_(std::make_unique<ListenerState>(addresses, limits, handler)) {}

HttpListener::~HttpListener() = default;

const SocketAddress& HttpListener::address() const {
  return state_->address();
}

HttpListener::Counts HttpListener::counts() const {
  return state_->counts();
}

void HttpListener::start() {
  state_->start();
}

void HttpListener::adopt_socket(int socket) {
  Worker& worker = state_->next_worker();
  Socket adopted = worker.new_socket();
  adopted.assign(tcp::v4(), socket);
  state_->admit(std::move(adopted), "local", worker);
}

void HttpListener::stop_accepting() {
  state_->stop_accepting();
}

bool HttpListener::wait_until_closed(milliseconds timeout) {
  return state_->wait_until_closed(timeout);
}

}  // namespace reprofuse::server
