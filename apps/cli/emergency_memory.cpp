// Memory for small objects where the system has none left. Destructors of nlohmann's JSON allocate, and what they throw
// would end the process; so would an allocation that fails in a library's own thread. Large allocations fail as ever,
// with std::bad_alloc, which a server turns into a refusal; but once an exception is on its way, whatever is destroyed
// gets what it asks for.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

namespace {

template <std::size_t kBytes, std::size_t kBlocks>
class Blocks {
 public:
  void* take(std::size_t bytes) noexcept {
    if (bytes > kBytes) return nullptr;
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const std::size_t block = (next_ + i) % kBlocks;
      if (is_used_[block]) continue;
      is_used_[block] = true;
      next_ = block + 1;
      return memory_.data() + block * kBytes;
    }
    return nullptr;
  }

  bool give_back(void* memory) noexcept {  // false: it is not from here
    const auto offset = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(memory_.data());
    if (offset >= memory_.size()) return false;
    const std::lock_guard lock(mutex_);
    is_used_[offset / kBytes] = false;
    return true;
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, kBytes* kBlocks> memory_ = {};
  std::array<bool, kBlocks> is_used_ = {};
  std::size_t next_ = 0;
  std::mutex mutex_;
};

// Made of zeros before the program starts, and never destroyed. Pages that are not needed take no memory.
constinit Blocks<256, 8192> small_blocks;
constinit Blocks<std::size_t{16} << 10, 256> large_blocks;
// For destructors alone, which give back at once what they take.
constinit Blocks<std::size_t{16} << 10, 64> unwinding_blocks;
constinit Blocks<std::size_t{8} << 20, 4> large_unwinding_blocks;

// In a destructor that an exception calls, or in a handler, which destroys what a container has made so far.
bool is_unwinding() noexcept {
  return std::uncaught_exceptions() > 0 || std::current_exception() != nullptr;
}

}  // namespace

void* operator new(std::size_t bytes) {
  constexpr std::size_t kLargest = std::size_t{16} << 10;
  constexpr int kAttempts = 1000;  // with a millisecond between them
  for (int i = 0; i < kAttempts; ++i) {
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    if (bytes > kLargest && !is_unwinding()) break;
    if (void* memory = small_blocks.take(bytes)) return memory;
    if (void* memory = large_blocks.take(bytes)) return memory;
    if (is_unwinding()) {
      if (void* memory = unwinding_blocks.take(bytes)) return memory;
      if (void* memory = large_unwinding_blocks.take(bytes)) return memory;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  if (small_blocks.give_back(memory) || large_blocks.give_back(memory)) return;
  if (unwinding_blocks.give_back(memory) || large_unwinding_blocks.give_back(memory)) return;
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}
