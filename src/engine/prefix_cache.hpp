// Pages of the KV cache whose tokens may come again, found by a hash of all tokens up to their end. Keys and values are
// a function of these tokens alone, so a page found is a page computed.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/kv_cache.hpp"

namespace reprofuse::engine {

// SHA-256 over the key of the page before and the tokens of this one: no two texts have the same key. Before the first
// page comes the hash of the salt, if there is one: texts of different salts have no key in common.
using PageKey = std::array<std::uint8_t, 32>;

// The keys of a text's full pages, computed as it grows.
class PageKeys {
 public:
  explicit PageKeys(std::int32_t page_size, std::string_view salt = {});

  // Of the first `pages` pages of the text, which only grows between calls.
  std::span<const PageKey> first(std::int64_t pages, std::span<const std::int32_t> text);

 private:
  std::int32_t page_size_;
  std::optional<PageKey> salt_;
  std::vector<PageKey> keys_;
};

class PrefixCache {
 public:
  // The cache must outlive this.
  explicit PrefixCache(model::KvCache& cache) : cache_(cache) {}

  // Of the longest known start of these, the pages that somebody uses now.
  std::int64_t pages_in_use(std::span<const PageKey> keys) const;
  // Gives an empty sequence the pages that hold the longest known start of these. Returns how many.
  std::int64_t start(model::Sequence& sequence, std::span<const PageKey> keys);
  // Keeps the pages of a sequence that have these keys, from page `first` on.
  void remember(const model::Sequence& sequence, std::span<const PageKey> keys, std::int64_t first);
  // Marks these pages as the most recently used, the first of them last: without it the others are of no use.
  void touch(std::span<const PageKey> keys);
  // Drops pages that nobody uses, those used longest ago first, until so many are free. False when there are not
  // enough.
  bool make_free(std::int64_t pages);

 private:
  struct Entry {
    std::int32_t page;
    std::list<PageKey>::iterator age;
  };

  model::KvCache& cache_;
  std::map<PageKey, Entry> entries_;
  std::list<PageKey> by_age_;  // the one used longest ago first
};

}  // namespace reprofuse::engine
