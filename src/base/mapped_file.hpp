// A file seen as memory, read only. Pages are read when they are touched, and the system may drop them again.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace reprofuse {

// The file must not be shortened while it is mapped: touching what is gone ends the process (SIGBUS).
class MappedFile {
 public:
  // Throws kInvalidArgument when the path is no regular file or cannot be mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace reprofuse
