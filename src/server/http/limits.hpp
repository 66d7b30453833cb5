// What one connection, one client and all of them together may take.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace reprofuse::server {

using Clock = std::chrono::steady_clock;

struct ConnectionLimits {
  std::chrono::milliseconds idle{75'000};    // without a request
  std::chrono::milliseconds header{10'000};  // for the whole of a request's header, however slowly it comes
  std::chrono::milliseconds body{30'000};    // the same for its body
  std::chrono::milliseconds grace{2'000};    // before a connection is closed to make room
  std::chrono::milliseconds write{30'000};   // in which the client takes nothing of what it asked for
  std::chrono::milliseconds linger{2'000};   // in which a client may still send what nobody reads, after its response
  std::size_t min_rate = std::size_t{16} << 10;  // bytes a second that it must take, after that time
  std::size_t header_bytes = std::size_t{32} << 10;
  std::size_t body_bytes = std::size_t{16} << 20;
  std::size_t memory_bytes = std::size_t{512} << 20;  // bodies of all requests, and what is made of them
  std::size_t reply_bytes = std::size_t{1} << 30;     // responses that clients have not taken
  std::size_t connections = 512;
  std::size_t connections_per_client = 0;  // of one address; 0: seven eighths of all
  std::size_t leaving = 1024;  // connections that got their response and may still be sending; more are closed at once

  // Connections beyond their address's limit that may be served, each for one request of an API key that has places
  // left. Until their header shows the key, up to twice `connections` more may be open.
  std::size_t beyond_addresses() const { return std::max<std::size_t>(1, connections / 8); }
  std::size_t of_one_address() const {
    return connections_per_client > 0 ? connections_per_client
                                      : std::max<std::size_t>(1, connections - connections / 8);
  }
};

// A limit for all, of which one client has at most half of what others leave, so that there is some for whoever comes
// next.
class SharedLimit {
 public:
  explicit SharedLimit(std::size_t limit) : limit_(limit) {}

  std::size_t in_use() const { return used_; }

  bool take(const std::string& client, std::size_t amount) {
    const auto entry = clients_.try_emplace(client).first;
    const std::size_t left_by_others = limit_ - (used_ - entry->second);
    const bool has_room = amount <= limit_ && entry->second + amount <= left_by_others - left_by_others / 2;
    if (has_room) {
      entry->second += amount;
      used_ += amount;
    }
    if (entry->second == 0) clients_.erase(entry);
    return has_room;
  }

  void give(const std::string& client, std::size_t amount) {
    used_ -= amount;
    const auto entry = clients_.find(client);
    entry->second -= amount;
    if (entry->second == 0) clients_.erase(entry);
  }

 private:
  std::size_t limit_, used_ = 0;
  std::map<std::string, std::size_t> clients_;
};

// Memory for responses that clients have not taken yet. For any thread.
class ReplyMemory {
 public:
  explicit ReplyMemory(std::size_t bytes) : taken_(bytes) {}

  std::size_t in_use() const {
    const std::lock_guard lock(mutex_);
    return taken_.in_use();
  }

  // What one response has of it.
  class Grant {
   public:
    Grant(std::shared_ptr<ReplyMemory> memory, std::string client)
        : memory_(std::move(memory)), client_(std::move(client)) {}
    ~Grant() { memory_->give(client_, granted_); }
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;

    // False: there is no room for so many bytes more.
    bool grow(std::size_t bytes) {
      const std::lock_guard lock(mutex_);
      return set(bytes_ + bytes);
    }
    void shrink(std::size_t bytes) {
      const std::lock_guard lock(mutex_);
      set(bytes_ - std::min(bytes, bytes_));
    }
    bool resize(std::size_t bytes) {
      const std::lock_guard lock(mutex_);
      return set(bytes);
    }

   private:
    static constexpr std::size_t kStep = std::size_t{64} << 10;  // the first is free: as many as there are connections

    bool set(std::size_t bytes) {
      const std::size_t wanted = bytes / kStep * kStep;
      if (wanted > granted_ && !memory_->take(client_, wanted - granted_)) return false;
      if (wanted < granted_) memory_->give(client_, granted_ - wanted);
      granted_ = wanted;
      bytes_ = bytes;
      return true;
    }

    const std::shared_ptr<ReplyMemory> memory_;
    const std::string client_;
    std::mutex mutex_;
    std::size_t bytes_ = 0, granted_ = 0;
  };

 private:
  bool take(const std::string& client, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return taken_.take(client, bytes);
  }

  void give(const std::string& client, std::size_t bytes) {
    if (bytes == 0) return;
    const std::lock_guard lock(mutex_);
    taken_.give(client, bytes);
  }

  mutable std::mutex mutex_;
  SharedLimit taken_;
};

// Places of one address that have a request with an API key: of several keys there, none keeps the others out. For any
// thread.
class KeyPlaces {
 public:
  explicit KeyPlaces(std::size_t per_address) : per_address_(per_address) {}

  // What one request has of it.
  class Grant {
   public:
    explicit Grant(KeyPlaces& places) : places_(places) {}
    ~Grant() { clear(); }
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;

    // False: this key has as many places there as it may.
    bool take(const std::string& address, const std::string& key) {
      clear();
      std::string own_key = key;  // first, since there may be no memory for it
      const std::lock_guard lock(places_.mutex_);
      const auto entry = places_.addresses_.try_emplace(address, places_.per_address_).first;
      if (entry->second.take(key, 1)) held_.emplace(entry, std::move(own_key));
      if (entry->second.in_use() == 0) places_.addresses_.erase(entry);
      is_held_ = held_.has_value();
      return is_held_;
    }

    bool is_held() const { return is_held_; }  // for any thread

    void clear() {
      if (!held_) return;
      is_held_ = false;
      const std::lock_guard lock(places_.mutex_);
      SharedLimit& address = held_->first->second;
      address.give(held_->second, 1);
      if (address.in_use() == 0) places_.addresses_.erase(held_->first);
      held_.reset();
    }

   private:
    KeyPlaces& places_;
    std::optional<std::pair<std::map<std::string, SharedLimit>::iterator, std::string>> held_;
    std::atomic<bool> is_held_ = false;
  };

 private:
  const std::size_t per_address_;
  std::mutex mutex_;
  std::map<std::string, SharedLimit> addresses_;  // that have places in use
};

// Memory for requests that are being read, counted before it is taken.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t bytes) : limit_(bytes) {}

  std::size_t in_use() const { return used_; }

  // The most that was in use since the last call.
  std::size_t take_peak() { return peak_.exchange(used_); }

  // What one request has of it.
  class Grant {
   public:
    explicit Grant(MemoryBudget& budget) : budget_(budget) {}
    ~Grant() { clear(); }
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;

    // False: there is no room for so many bytes more. The last quarter is kept for requests that are small.
    bool grow(std::size_t bytes) {
      const std::size_t limit = bytes_ + bytes <= kSmall ? budget_.limit_ : budget_.limit_ / 4 * 3;
      const std::size_t used = budget_.used_.fetch_add(bytes) + bytes;
      if (used > limit) {
        budget_.used_ -= bytes;
        return false;
      }
      std::size_t peak = budget_.peak_;
      while (peak < used && !budget_.peak_.compare_exchange_weak(peak, used)) {
      }
      bytes_ += bytes;
      return true;
    }

    void clear() {
      budget_.used_ -= bytes_;
      bytes_ = 0;
    }

   private:
    static constexpr std::size_t kSmall = std::size_t{256} << 10;

    MemoryBudget& budget_;
    std::size_t bytes_ = 0;
  };

 private:
  std::size_t limit_;
  std::atomic<std::size_t> used_ = 0, peak_ = 0;
};

}  // namespace reprofuse::server
