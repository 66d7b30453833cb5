#include "base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace reprofuse {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path) : value_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    require(value_ >= 0, "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  ~FileDescriptor() { close(value_); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const FileDescriptor file(path);
  struct stat status = {};
  require(fstat(file.get(), &status) == 0, "{}: cannot be examined: {}", path, std::strerror(errno));
  require(S_ISREG(status.st_mode), "{}: is no regular file", path);
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // nothing to map, and mmap refuses it
  void* mapping = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  require(mapping != MAP_FAILED, "{}: {} bytes cannot be mapped: {}", path, size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace reprofuse
