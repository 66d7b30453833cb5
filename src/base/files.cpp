#include "base/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/math.hpp"
#include "base/thread_pool.hpp"

namespace reprofuse {
namespace {

constexpr std::size_t kPart = 16 << 20;      // what one thread reads at a time
constexpr std::size_t kHugePage = 2U << 20;  // on most machines; only a hint depends on it

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status = {};
  const bool is_known = fstat(descriptor, &status) == 0;
  require(is_known, "{}: cannot be examined: {}", path, std::strerror(errno));
  return status;
}

}  // namespace

SourceFile::SourceFile(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  require(descriptor_ >= 0, "{}: cannot be opened: {}", path, std::strerror(errno));
  try {
    const struct stat status = status_of(descriptor_, path_);
    require(S_ISREG(status.st_mode), "{}: is no regular file", path);
    size_ = static_cast<std::size_t>(status.st_size);
    changed_ = status.st_mtim;
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SourceFile::~SourceFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

SourceFile::SourceFile(SourceFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      changed_(other.changed_) {}

SourceFile& SourceFile::operator=(SourceFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(changed_, other.changed_);
  return *this;
}

std::shared_ptr<const std::byte[]> SourceFile::read(std::size_t offset, std::size_t bytes) const {
  if (bytes == 0) return std::shared_ptr<const std::byte[]>(new std::byte[1]{});
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(mapping != MAP_FAILED, "{}: there is no memory for {} of its bytes: {}", path_, bytes, std::strerror(errno));
  auto* memory = static_cast<std::byte*>(mapping);
  std::shared_ptr<const std::byte[]> owned(memory,
                                           [bytes](const std::byte* at) { munmap(const_cast<std::byte*>(at), bytes); });
#ifdef MADV_HUGEPAGE
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // a hint; where it is refused pages are small
#endif
  read_into({memory, bytes}, offset);
  mprotect(memory, bytes, PROT_READ);
  return owned;
}

void SourceFile::read_into(std::span<std::byte> memory, std::size_t offset) const {
  invariant(offset <= size_ && memory.size() <= size_ - offset, "a part of a file lies beyond its end");
  const auto parts = static_cast<std::int64_t>(ceil_div(memory.size(), kPart));
  ThreadPool pool(static_cast<int>(std::clamp<std::int64_t>(parts, 1, available_cores())));
  pool.parallel_for(parts, [&](std::int64_t part, int) {
    const std::size_t at = static_cast<std::size_t>(part) * kPart;
    read_part(memory.subspan(at, std::min(kPart, memory.size() - at)), offset + at);
  });
  require_unchanged();
}

void SourceFile::read_part(std::span<std::byte> memory, std::size_t offset) const {
  while (!memory.empty()) {
    const ssize_t got = pread(descriptor_, memory.data(), memory.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, "{}: cannot be read at byte {}: {}", path_, offset, std::strerror(errno));
    require(got > 0, "{}: ends at byte {}, and had {} when it was opened", path_, offset, size_);
    memory = memory.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::size_t>(got);
  }
}

void SourceFile::require_unchanged() const {
  const struct stat now = status_of(descriptor_, path_);
  const bool same = static_cast<std::size_t>(now.st_size) == size_ && now.st_mtim.tv_sec == changed_.tv_sec &&
                    now.st_mtim.tv_nsec == changed_.tv_nsec;
  require(same, "{}: was changed while it was read", path_);
}

}  // namespace reprofuse
