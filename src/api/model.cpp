#include "reprofuse/model.hpp"

#include "api/folder.hpp"
#include "api/loaded_model.hpp"

namespace reprofuse {

Model Model::load(const Context& context, const Checkpoint& checkpoint, const LoadOptions& options) {
  return Model(std::make_shared<const Impl>(
      Impl{checkpoint, {context, checkpoint.impl_->files.source(), options.max_positions, options.progress}}));
}

const Context& Model::context() const {
  return impl_->model.context();
}

const Checkpoint& Model::checkpoint() const {
  return impl_->checkpoint;
}

std::int64_t Model::max_positions() const {
  return impl_->model.max_positions();
}

}  // namespace reprofuse
