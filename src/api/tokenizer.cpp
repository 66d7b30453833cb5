#include "reprofuse/tokenizer.hpp"

#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse {

struct StreamDetokenizer::Impl {
  text::StreamDetokenizer inside;
};

StreamDetokenizer::StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : impl_(new Impl{text::StreamDetokenizer(tokenizer, skip_special_tokens)}) {}
StreamDetokenizer::~StreamDetokenizer() = default;
StreamDetokenizer::StreamDetokenizer(StreamDetokenizer&&) noexcept = default;
StreamDetokenizer& StreamDetokenizer::operator=(StreamDetokenizer&&) noexcept = default;

std::string StreamDetokenizer::push(std::int32_t id) {
  return impl_->inside.push(id);
}

std::string StreamDetokenizer::flush() {
  return impl_->inside.flush();
}

}  // namespace reprofuse
