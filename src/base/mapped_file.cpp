#include "base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/math.hpp"

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

void MappedFile::advise_dontneed(std::span<const std::byte> range) const {
  if (range.empty()) return;
  invariant(range.data() >= data_ && range.data() + range.size() <= data_ + size_, "the range is not of this mapping");
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(range.data() - data_);  // data_ itself is at the start of a page
  const std::size_t first = round_up(offset, page);
  const std::size_t last = (offset + range.size()) / page * page;
  if (first < last) madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

}  // namespace reprofuse
