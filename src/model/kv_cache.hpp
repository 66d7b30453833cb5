// Keys and values of all layers, in pages that sequences use, alone or together. Which page holds what cannot move a
// bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/config.hpp"
#include "kernels/op_calls.hpp"
#include "ops/buffer.hpp"

namespace reprofuse::model {

inline constexpr std::int32_t kDefaultPageSize = 64;

class KvCache {
 public:
  // Throws for a page_size that kernels::is_page_size() refuses.
  KvCache(const Context& context, const checkpoint::ModelConfig& config, std::int64_t pages,
          std::int32_t page_size = kDefaultPageSize);

  static std::int64_t bytes_per_page(const Context& context, const checkpoint::ModelConfig& config,
                                     std::int32_t page_size);

  kernels::KvPages layer(std::int64_t index) const;
  std::int32_t page_size() const { return page_size_; }
  std::int64_t pages_for(std::int64_t positions) const { return (positions + page_size_ - 1) / page_size_; }
  std::int64_t pages() const { return static_cast<std::int64_t>(uses_.size()); }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t pages_in_use() const { return pages() - free_pages() - kept_unused_; }

  std::optional<std::int32_t> take_page();  // none: no page is free
  void add_user(std::int32_t page);         // one more user of a page that is full: nobody writes to it any more
  void give_back(std::int32_t page);        // one user less

  // A page that is kept does not become free when its last user gives it back, until it is dropped.
  void keep(std::int32_t page);
  void drop(std::int32_t page);
  bool is_used(std::int32_t page) const { return uses_[static_cast<std::size_t>(page)].users > 0; }

 private:
  struct Use {
    std::int32_t users = 0;
    bool kept = false;
  };

  std::int64_t layer_bytes_ = 0;       // of keys, and of values
  std::int64_t layer_unit_bytes_ = 0;  // of those of keys, and of values
  std::int32_t kv_heads_;
  std::int32_t head_dim_;
  std::int32_t page_size_;
  const kernels::CacheFormat* format_;
  Buffer keys_, values_;            // [layers, pages, kv_heads] of head_dim * page_size elements, as KvPages says
  Buffer key_units_, value_units_;  // [layers, pages, kv_heads, page_size], in formats that have them
  std::vector<Use> uses_;           // by page
  std::int64_t kept_unused_ = 0;
  std::vector<std::int32_t> free_;
};

// What the cache holds of one text: how many of its tokens, and in which pages.
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
    make_room_for(std::max<std::int64_t>(0, more));
    for (std::int64_t i = 0; i < more; ++i) pages_.push_back(*cache_->take_page());
    return true;
  }
  void advance(std::int64_t tokens) { length_ += tokens; }
  // Forgets the tokens from `length` on. Their pages stay, for those that come instead.
  void truncate(std::int64_t length) { length_ = std::min(length_, length); }

  // Starts an empty sequence with a full page that holds its next tokens already.
  void adopt(std::int32_t page) {
    make_room_for(1);
    cache_->add_user(page);
    pages_.push_back(page);
    length_ += cache_->page_size();
  }

  void clear() noexcept {
    for (const std::int32_t page : pages_) cache_->give_back(page);
    pages_.clear();
    length_ = 0;
  }

 private:
  // So that no page is lost where memory is.
  void make_room_for(std::int64_t pages) {
    const std::size_t all = pages_.size() + static_cast<std::size_t>(pages);
    if (all > pages_.capacity()) pages_.reserve(std::max(all, 2 * pages_.size()));
  }

  KvCache* cache_;
  std::int64_t length_ = 0;
  std::vector<std::int32_t> pages_;  // page i holds positions [i * page_size, (i + 1) * page_size)
};

}  // namespace reprofuse::model
