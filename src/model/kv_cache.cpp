#include "model/kv_cache.hpp"

#include "base/check.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::model {

KvCache::KvCache(const Context& context, const checkpoint::ModelConfig& config, std::int64_t pages,
                 std::int32_t page_size)
    : kv_heads_(static_cast<std::int32_t>(config.kv_heads)),
      head_dim_(static_cast<std::int32_t>(config.head_dim)),
      page_size_(page_size),
      format_(context.state().numerics->cache) {
  require(kernels::is_page_size(page_size), "a page of {} positions is not a power of two of at least {}", page_size,
          kernels::kMinPageSize);
  require(pages >= 1 && pages <= INT32_MAX, "a cache of {} pages; it takes 1 to {}", pages, INT32_MAX);
  const bool fits = checked_product(bytes_per_page(context, config, page_size), pages).has_value();
  require(fits, "a cache of {} pages of {} positions is larger than any memory", pages, page_size);
  layer_bytes_ = pages * format_->page_bytes(kv_heads_, head_dim_, page_size);
  layer_unit_bytes_ = pages * format_->page_unit_bytes(kv_heads_, page_size);
  keys_ = Buffer(context, static_cast<std::size_t>(layer_bytes_ * config.layers));
  values_ = Buffer(context, static_cast<std::size_t>(layer_bytes_ * config.layers));
  key_units_ = Buffer(context, static_cast<std::size_t>(layer_unit_bytes_ * config.layers));
  value_units_ = Buffer(context, static_cast<std::size_t>(layer_unit_bytes_ * config.layers));
  uses_.resize(static_cast<std::size_t>(pages));
  for (std::int64_t page = pages; page-- > 0;) free_.push_back(static_cast<std::int32_t>(page));
}

std::int64_t KvCache::bytes_per_page(const Context& context, const checkpoint::ModelConfig& config,
                                     std::int32_t page_size) {
  const kernels::CacheFormat& format = *context.state().numerics->cache;
  return 2 * config.layers *
         (format.page_bytes(config.kv_heads, config.head_dim, page_size) +
          format.page_unit_bytes(config.kv_heads, page_size));
}

kernels::KvPages KvCache::layer(std::int64_t index) const {
  return {.keys = keys_.as<std::byte>() + index * layer_bytes_,
          .values = values_.as<std::byte>() + index * layer_bytes_,
          .dtype = format_->dtype,
          .kv_heads = kv_heads_,
          .head_dim = head_dim_,
          .page_size = page_size_,
          .pages = static_cast<std::int32_t>(uses_.size()),
          .key_units = key_units_.as<std::byte>() + index * layer_unit_bytes_,
          .value_units = value_units_.as<std::byte>() + index * layer_unit_bytes_};
}

std::optional<std::int32_t> KvCache::take_page() {
  if (free_.empty()) return std::nullopt;
  const std::int32_t page = free_.back();
  free_.pop_back();
  uses_[static_cast<std::size_t>(page)].users = 1;
  return page;
}

void KvCache::add_user(std::int32_t page) {
  Use& use = uses_[static_cast<std::size_t>(page)];
  invariant(use.users > 0 || use.kept, "a free page is shared");
  if (use.users++ == 0) --kept_unused_;
}

void KvCache::give_back(std::int32_t page) {
  Use& use = uses_[static_cast<std::size_t>(page)];
  if (--use.users > 0) return;
  if (use.kept)
    ++kept_unused_;
  else
    free_.push_back(page);
}

void KvCache::keep(std::int32_t page) {
  Use& use = uses_[static_cast<std::size_t>(page)];
  invariant(use.users > 0 && !use.kept, "only a page in use can be kept, and once");
  use.kept = true;
}

void KvCache::drop(std::int32_t page) {
  Use& use = uses_[static_cast<std::size_t>(page)];
  invariant(use.kept, "a page is dropped that was not kept");
  use.kept = false;
  if (use.users > 0) return;
  --kept_unused_;
  free_.push_back(page);
}

}  // namespace reprofuse::model
