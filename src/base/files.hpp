// Files that are read, and those that the binary carries.
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace reprofuse {

// Read, never mapped: what was read is memory of this process, and nothing that happens to the file afterwards reaches
// it.
class SourceFile {
 public:
  // Throws kInvalidArgument when the path is no regular file or cannot be opened.
  explicit SourceFile(const std::string& path);
  ~SourceFile();
  SourceFile(SourceFile&& other) noexcept;
  SourceFile& operator=(SourceFile&& other) noexcept;
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  std::size_t size() const { return size_; }  // when it was opened

  // A part of the file, which begins at an address that suits every element type, in memory that cannot be written.
  // Throws kInvalidArgument when the file cannot be read or is no longer what was opened.
  std::shared_ptr<const std::byte[]> read(std::size_t offset, std::size_t bytes) const;
  // The same into memory of the caller, all of which it fills; where it throws, with anything.
  void read_into(std::span<std::byte> memory, std::size_t offset) const;

 private:
  void read_part(std::span<std::byte> memory, std::size_t offset) const;
  void require_unchanged() const;

  std::string path_;
  int descriptor_;
  std::size_t size_ = 0;
  std::timespec changed_ = {};
};

// A file that the binary carries (cmake/EmbedAssets.cmake).
struct Asset {
  std::string_view body;
  std::string_view content_type;
};

}  // namespace reprofuse
