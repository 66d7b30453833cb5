#include "ops/buffer.hpp"

#include "ops/context_state.hpp"

namespace reprofuse {

Buffer::Buffer(const Context& context, std::size_t bytes) : backend_(context.state().backend), bytes_(bytes) {
  if (bytes != 0) data_ = backend_->allocate(bytes);
}

Buffer::~Buffer() {
  if (data_ != nullptr) backend_->release(data_);
}

void copy_to_device(const Context& context, void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) context.state().backend->copy_to_device(to, from, bytes);
}

void copy_to_host(const Context& context, void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) context.state().backend->copy_to_host(to, from, bytes);
}

StagedBuffer::StagedBuffer(const Context& context, std::size_t bytes)
    : backend_(context.state().backend), device_(context, bytes) {
  if (!backend_->capabilities().shares_host_memory) staging_ = backend_->allocate_staging(bytes);
}

StagedBuffer::~StagedBuffer() {
  if (staging_ != nullptr) backend_->release_staging(staging_);
}

void StagedBuffer::enqueue_upload(std::size_t bytes, void* stream) const {
  if (staging_ != nullptr) backend_->enqueue_copy_to_device(device_.as<void>(), staging_, bytes, stream);
}

}  // namespace reprofuse
