// What the cache holds of one text: how many of its tokens, and in which pages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/kv_cache.hpp"

namespace reprofuse::model {

class Sequence {
 public:
  explicit Sequence(KvCache& cache) : cache_(&cache) {}
  ~Sequence() { clear(); }
  Sequence(Sequence&& other) noexcept
      : cache_(other.cache_), length_(std::exchange(other.length_, 0)), pages_(std::exchange(other.pages_, {})) {}
  Sequence& operator=(Sequence&&) = delete;

  bool is_in(const KvCache& cache) const { return cache_ == &cache; }
  std::int64_t length() const { return length_; }
  const std::vector<std::int32_t>& pages() const { return pages_; }

  // Takes pages until `tokens` more fit. False, and nothing taken, when the cache has not enough.
  bool reserve(std::int64_t tokens) {
    const std::int64_t more = cache_->pages_for(length_ + tokens) - static_cast<std::int64_t>(pages_.size());
    if (more > cache_->free_pages()) return false;
    for (std::int64_t i = 0; i < more; ++i) pages_.push_back(*cache_->take_page());
    return true;
  }
  void advance(std::int64_t tokens) { length_ += tokens; }
  // Forgets the tokens from `length` on. Their pages stay, for those that come instead.
  void truncate(std::int64_t length) { length_ = std::min(length_, length); }

  // Starts an empty sequence with a full page that holds its next tokens already.
  void adopt(std::int32_t page) {
    cache_->share(page);
    pages_.push_back(page);
    length_ += cache_->page_size();
  }

  void clear() {
    for (const std::int32_t page : pages_) cache_->give_back(page);
    pages_.clear();
    length_ = 0;
  }

 private:
  KvCache* cache_;
  std::int64_t length_ = 0;
  std::vector<std::int32_t> pages_;  // page i holds positions [i * page_size, (i + 1) * page_size)
};

}  // namespace reprofuse::model
