// A map that holds at most so many values: making room drops the one that was used longest ago.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

#include "base/check.hpp"

namespace reprofuse {

template <typename Key, typename Value>
class BoundedCache {
 public:
  explicit BoundedCache(std::size_t capacity) : capacity_(capacity) {
    require(capacity >= 1, "a cache with room for {} values", capacity);
  }
  // Moved, never copied: the places of a copy would be in the list of the original.
  BoundedCache(BoundedCache&&) noexcept = default;
  BoundedCache& operator=(BoundedCache&&) noexcept = default;

  // The value of the key, made by make() when there is none. Valid until the next call. When make() throws, the cache
  // is as it was, except that a full one has lost its oldest value: dropped first, so that both never exist at once.
  template <typename Make>
  Value& get(const Key& key, Make make) {
    if (const auto found = places_.find(key); found != places_.end()) {
      by_use_.splice(by_use_.begin(), by_use_, found->second);
      return by_use_.front().second;
    }
    if (by_use_.size() == capacity_) {
      places_.erase(by_use_.back().first);
      by_use_.pop_back();
    }
    by_use_.emplace_front(key, make());
    places_.emplace(key, by_use_.begin());
    return by_use_.front().second;
  }

  std::size_t size() const { return by_use_.size(); }

 private:
  using Entries = std::list<std::pair<const Key, Value>>;

  std::size_t capacity_;
  Entries by_use_;  // the latest first
  std::map<Key, typename Entries::iterator> places_;
};

}  // namespace reprofuse
