#include "engine/prefix_cache.hpp"

#include "base/hash.hpp"

namespace reprofuse::engine {

PageKeys::PageKeys(std::int32_t page_size, std::string_view salt) : page_size_(page_size) {
  if (salt.empty()) return;
  constexpr std::int32_t kNoToken = -1;  // so that no text has the hash of a salt
  Sha256 hash;
  hash.update(&kNoToken, sizeof(kNoToken));
  hash.update(salt.data(), salt.size());
  salt_ = hash.finish();
}

std::span<const PageKey> PageKeys::first(std::int64_t pages, std::span<const std::int32_t> text) {
  while (static_cast<std::int64_t>(keys_.size()) < pages) {
    const auto tokens =
        text.subspan(keys_.size() * static_cast<std::size_t>(page_size_)).first(static_cast<std::size_t>(page_size_));
    Sha256 hash;
    const std::optional<PageKey> before = keys_.empty() ? salt_ : keys_.back();
    if (before) hash.update(before->data(), before->size());
    hash.update(tokens.data(), tokens.size_bytes());
    keys_.push_back(hash.finish());
  }
  return std::span(keys_).first(static_cast<std::size_t>(pages));
}

std::int64_t PrefixCache::pages_in_use(std::span<const PageKey> keys) const {
  std::int64_t pages = 0;
  for (const PageKey& key : keys) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) break;
    if (cache_.is_used(found->second.page)) ++pages;
  }
  return pages;
}

std::int64_t PrefixCache::start(model::Sequence& sequence, std::span<const PageKey> keys) {
  std::int64_t pages = 0;
  for (const PageKey& key : keys) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) break;
    sequence.adopt(found->second.page);
    ++pages;
  }
  return pages;
}

void PrefixCache::remember(const model::Sequence& sequence, std::span<const PageKey> keys, std::int64_t first) {
  for (auto i = static_cast<std::size_t>(first); i < keys.size(); ++i) {
    if (entries_.contains(keys[i])) continue;
    const std::int32_t page = sequence.pages()[i];
    std::list<PageKey> age = {keys[i]};
    entries_.emplace(keys[i], Entry{page, age.begin()});  // what fails has failed by now, and has changed nothing
    by_age_.splice(by_age_.end(), age);
    cache_.keep(page);
  }
}

void PrefixCache::touch(std::span<const PageKey> keys) {
  for (auto key = keys.rbegin(); key != keys.rend(); ++key)
    if (const auto found = entries_.find(*key); found != entries_.end())
      by_age_.splice(by_age_.end(), by_age_, found->second.age);
}

bool PrefixCache::make_free(std::int64_t pages) {
  for (auto age = by_age_.begin(); age != by_age_.end() && cache_.free_pages() < pages;) {
    const auto entry = entries_.find(*age);
    if (cache_.is_used(entry->second.page)) {
      ++age;
      continue;
    }
    cache_.drop(entry->second.page);
    entries_.erase(entry);
    age = by_age_.erase(age);
  }
  return cache_.free_pages() >= pages;
}

}  // namespace reprofuse::engine
