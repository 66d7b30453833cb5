// The operands of model_ops_case.hpp on a device, and back.
#pragma once

#include <optional>

#include "kernels/cuda/elementwise/elementwise.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/stream.hpp"
#include "support/device_buffer.hpp"
#include "support/model_ops_case.hpp"

namespace reprofuse {

inline cuda::DeviceBuffer upload(const void* data, std::size_t bytes) {
  cuda::DeviceBuffer buffer(0, std::max<std::size_t>(bytes, 1));
  cuda::copy_to_device(buffer.as<void>(), data, bytes);
  return buffer;
}

// A copy of a matrix, padding included.
class DeviceRows {
 public:
  explicit DeviceRows(const Rows& rows)
      : host_(rows.view()), elements_(host_.rows * host_.stride), buffer_(upload(host_.data, bytes())) {}

  Matrix view() const { return {buffer_.as<float>(), host_.rows, host_.cols, host_.stride}; }
  ConstMatrix const_view() const { return as_const(view()); }
  float* data() const { return buffer_.as<float>(); }
  void fetch(Rows& to) const { cuda::copy_to_host(to.view().data, buffer_.as<void>(), bytes()); }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(elements_) * sizeof(float); }

  ConstMatrix host_;
  std::int64_t elements_;
  cuda::DeviceBuffer buffer_;
};

// The batch and the pages of a KvCase, up to the last page that the table names.
class DeviceKv {
 public:
  explicit DeviceKv(KvCase& kv) : host_(kv.batch()), pages_(kv.pages()) {
    std::int32_t sequences = 0, last_page = 0;
    for (const kernels::Chunk& chunk : kv.chunks()) sequences = std::max(sequences, chunk.sequence + 1);
    const auto entries = static_cast<std::size_t>(sequences) * static_cast<std::size_t>(host_.page_table_stride);
    for (std::size_t i = 0; i < entries; ++i) last_page = std::max(last_page, host_.page_table[i]);
    bytes_ = static_cast<std::size_t>(last_page + 1) * static_cast<std::size_t>(pages_.kv_heads) *
             static_cast<std::size_t>(pages_.head_dim) * static_cast<std::size_t>(pages_.page_size) *
             dtype_bytes(pages_.dtype);
    const auto rows = static_cast<std::size_t>(host_.rows);
    positions_ = upload(host_.positions, rows * sizeof(std::int32_t));
    sequences_ = upload(host_.sequences, rows * sizeof(std::int32_t));
    chunks_ = upload(host_.chunks, kv.chunks().size() * sizeof(kernels::Chunk));
    page_table_ = upload(host_.page_table, entries * sizeof(std::int32_t));
    keys_ = upload(pages_.keys, bytes_);
    values_ = upload(pages_.values, bytes_);
  }

  kernels::Batch batch() const {
    kernels::Batch batch = host_;
    batch.positions = positions_.as<std::int32_t>();
    batch.sequences = sequences_.as<std::int32_t>();
    batch.chunks = chunks_.as<kernels::Chunk>();
    batch.page_table = page_table_.as<std::int32_t>();
    return batch;
  }
  kernels::KvPages pages() const {
    kernels::KvPages pages = pages_;
    pages.keys = keys_.as<void>();
    pages.values = values_.as<void>();
    return pages;
  }
  // Brings keys and values back to the host case.
  void fetch() const {
    cuda::copy_to_host(pages_.keys, keys_.as<void>(), bytes_);
    cuda::copy_to_host(pages_.values, values_.as<void>(), bytes_);
  }

 private:
  kernels::Batch host_;
  kernels::KvPages pages_;
  std::size_t bytes_ = 0;
  cuda::DeviceBuffer positions_, sequences_, chunks_, page_table_, keys_, values_;
};

// Skips without a device; otherwise gives a workspace and a stream.
class ModelOpsCuda : public ::testing::Test {
 protected:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
  static constexpr unsigned kOp = 3;

  void SetUp() override {
    try {
      cuda::require_device(0);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    workspace_.reset(cuda::allocate_workspace(0, kWorkspaceBytes));
    stream_ = std::make_unique<cuda::Stream>(0);
  }

  cuda::DeviceSite site() const {
    return {
        {.op = kOp, .workspace = workspace_.get(), .workspace_bytes = kWorkspaceBytes, .stream = stream_->handle()}};
  }
  void synchronize() const { stream_->synchronize(); }
  std::optional<kernels::NonFinite> failure() const {
    const auto record = cuda::take_record(0, workspace_.get(), stream_->handle());
    if (!record) return std::nullopt;
    EXPECT_EQ(record->op, kOp);
    return record->place;
  }

 private:
  std::unique_ptr<void, void (*)(void*) noexcept> workspace_{nullptr, cuda::release};
  std::unique_ptr<cuda::Stream> stream_;
};

}  // namespace reprofuse
