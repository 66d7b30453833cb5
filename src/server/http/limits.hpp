// What one connection, one client and all of them together may take.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace reprofuse::server {

using Clock = std::chrono::steady_clock;

struct ConnectionLimits {
  std::chrono::milliseconds idle{75'000};          // without a request
  std::chrono::milliseconds header{10'000};        // for the whole of a request's header, however slowly it comes
  std::chrono::milliseconds body{30'000};          // the same for its body
  std::chrono::milliseconds grace{2'000};          // in which nobody is made to leave for another
  std::chrono::milliseconds write{30'000};         // in which the client takes nothing of what it asked for
  std::size_t least_rate = std::size_t{16} << 10;  // bytes a second that it must take, after that time
  std::size_t header_bytes = std::size_t{32} << 10;
  std::size_t body_bytes = std::size_t{16} << 20;
  std::size_t memory_bytes = std::size_t{512} << 20;  // bodies of all requests, and what is made of them
  std::size_t reply_bytes = std::size_t{1} << 30;     // answers that clients have not taken
  std::size_t connections = 256;
  std::size_t connections_per_client = 0;  // of one address; 0: seven eighths of all
};

// Memory for answers that clients have not taken yet. One client has at most half of what others leave, so that there
// is some for whoever comes next. For any thread.
class ReplyMemory {
 public:
  explicit ReplyMemory(std::size_t bytes) : limit_(bytes) {}

  std::size_t in_use() const {
    const std::lock_guard lock(mutex_);
    return used_;
  }

  // What one answer has of it.
  class Share {
   public:
    Share(std::shared_ptr<ReplyMemory> memory, std::string client)
        : memory_(std::move(memory)), client_(std::move(client)) {}
    ~Share() { memory_->give(client_, granted_); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

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
    const auto entry = clients_.try_emplace(client).first;
    const std::size_t of_others = used_ - entry->second;
    const bool has_room = bytes <= limit_ && entry->second + bytes <= (limit_ - of_others) / 2;
    if (has_room) {
      entry->second += bytes;
      used_ += bytes;
    }
    if (entry->second == 0) clients_.erase(entry);
    return has_room;
  }

  void give(const std::string& client, std::size_t bytes) {
    if (bytes == 0) return;
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    const auto entry = clients_.find(client);
    entry->second -= bytes;
    if (entry->second == 0) clients_.erase(entry);
  }

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<std::string, std::size_t> clients_;
};

// Memory for requests that are being read, counted before it is taken.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t bytes) : limit_(bytes) {}

  std::size_t in_use() const { return used_; }

  // What one request has of it.
  class Share {
   public:
    explicit Share(MemoryBudget& budget) : budget_(budget) {}
    ~Share() { clear(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // False: there is no room for so many bytes more. The last quarter is kept for requests that are small.
    bool grow(std::size_t bytes) {
      const std::size_t limit = bytes_ + bytes <= kSmall ? budget_.limit_ : budget_.limit_ / 4 * 3;
      if (budget_.used_.fetch_add(bytes) + bytes > limit) {
        budget_.used_ -= bytes;
        return false;
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
  std::atomic<std::size_t> used_ = 0;
};

}  // namespace reprofuse::server
