// A library for LD_PRELOAD that makes calls of the C library fail, for tests of what a program does then.
//
// FAULT="PHASE KIND FIRST COUNT [ERRNO]": of the calls of KIND in PHASE, numbers FIRST to FIRST + COUNT - 1 fail. PHASE
// is `start`, `serve` or `drain` of `reprofuse serve`, which is known by what it writes; KIND is one of kKinds. With
// COUNT 0 nothing fails; with ERRNO -1 the calls never end, of writes those to a disk. FAULT_COUNTS names a file: at
// the end of the process it has a line for each phase and kind with the number of calls, and one that says how many
// calls failed.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

// NOLINTBEGIN(bugprone-reserved-identifier, performance-no-int-to-ptr): the names and the calls are glibc's
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

enum Phase { kStart, kServe, kDrain, kPhases, kBeforeMain };
enum Kind { kMemory, kMap, kRead, kWrite, kReceive, kSend, kThread, kAccept, kKindCount };

constexpr const char* kPhaseNames[] = {"start", "serve", "drain"};
constexpr const char* kKindNames[] = {"malloc", "mmap", "read", "write", "recv", "send", "thread", "accept"};
constexpr int kErrors[] = {ENOMEM, ENOMEM, EIO, ENOSPC, ENOBUFS, ENOBUFS, EAGAIN, EMFILE};

std::atomic<int> current_phase = kBeforeMain;
std::atomic<long> calls[kPhases][kKindCount];
std::atomic<long> failed = 0;
int wanted_phase = -1, wanted_kind = -1, wanted_errno = 0;
long first = 0, count = 0;

template <std::size_t N>
int index_of(const char* const (&names)[N], const char* name) {
  for (std::size_t i = 0; i < N; ++i)
    if (std::strcmp(names[i], name) == 0) return static_cast<int>(i);
  std::abort();
}

__attribute__((constructor)) void read_wishes() {
  const char* text = std::getenv("FAULT");
  char phase[16], kind[16];
  if (text == nullptr) return;
  if (std::sscanf(text, "%15s %15s %ld %ld %d", phase, kind, &first, &count, &wanted_errno) < 4) std::abort();
  wanted_kind = index_of(kKindNames, kind);
  wanted_phase = index_of(kPhaseNames, phase);
}

__attribute__((destructor)) void write_counts() {
  const char* path = std::getenv("FAULT_COUNTS");
  if (path == nullptr) return;
  const int file = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  char line[64];
  const auto put = [&](int length) { syscall(SYS_write, file, line, length); };
  for (int phase = 0; phase < kPhases; ++phase)
    for (int kind = 0; kind < kKindCount; ++kind)
      put(std::snprintf(line, sizeof(line), "%s %s %ld\n", kPhaseNames[phase], kKindNames[kind],
                        calls[phase][kind].load()));
  put(std::snprintf(line, sizeof(line), "failed %ld\n", failed.load()));
  close(file);
}

// Counts the call; true where it is to fail, with errno set.
bool fails(Kind kind) {
  const int phase = current_phase;
  if (phase == kBeforeMain) return false;  // where a program has no way to say anything
  const long number = ++calls[phase][kind];
  if (phase != wanted_phase || kind != wanted_kind || number < first || number >= first + count) return false;
  ++failed;
  while (wanted_errno == -1) pause();
  errno = wanted_errno != 0 ? wanted_errno : kErrors[kind];
  return true;
}

// What the program tells of where it is.
void look_for_phase(const void* data, std::size_t bytes) {
  const std::string_view text(static_cast<const char*>(data), bytes);
  if (text.starts_with("listening on")) current_phase = kServe;
  if (text.starts_with("stopping:")) current_phase = kDrain;
}

// Files, pipes and terminals can fail; an eventfd, by which threads wake each other, cannot.
bool is_file(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && (status.st_mode & S_IFMT) != 0;
}

bool is_on_disk(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*rtld_fini)(), void* stack_end) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  static int (*program)(int, char**, char**) = main;
  const auto run = [](int count_of_arguments, char** arguments, char** environment) {
    current_phase = kStart;
    return program(count_of_arguments, arguments, environment);
  };
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(run, argc, argv, init, fini, rtld_fini, stack_end);
}

void* malloc(std::size_t bytes) {
  return fails(kMemory) ? nullptr : __libc_malloc(bytes);
}

void* calloc(std::size_t items, std::size_t bytes) {
  return fails(kMemory) ? nullptr : __libc_calloc(items, bytes);
}

void* realloc(void* old, std::size_t bytes) {
  return fails(kMemory) ? nullptr : __libc_realloc(old, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  return fails(kMemory) ? nullptr : __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return memalign(alignment, bytes);
}

int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  void* memory = memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *result = memory;
  return 0;
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (fails(kMap)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

ssize_t read(int file, void* data, std::size_t bytes) {
  return is_file(file) && fails(kRead) ? -1 : syscall(SYS_read, file, data, bytes);
}

ssize_t readv(int file, const iovec* parts, int many) {
  return fails(kRead) ? -1 : syscall(SYS_readv, file, parts, many);
}

ssize_t pread(int file, void* data, std::size_t bytes, off_t offset) {
  return fails(kRead) ? -1 : syscall(SYS_pread64, file, data, bytes, offset);
}

ssize_t pread64(int file, void* data, std::size_t bytes, off_t offset) {
  return pread(file, data, bytes, offset);
}

ssize_t write(int file, const void* data, std::size_t bytes) {
  const bool is_counted = wanted_errno == -1 ? is_on_disk(file) : is_file(file);
  const bool is_failing = is_counted && fails(kWrite);
  look_for_phase(data, bytes);
  return is_failing ? -1 : syscall(SYS_write, file, data, bytes);
}

ssize_t writev(int file, const iovec* parts, int many) {
  return fails(kWrite) ? -1 : syscall(SYS_writev, file, parts, many);
}

ssize_t send(int socket, const void* data, std::size_t bytes, int flags) {
  return fails(kSend) ? -1 : syscall(SYS_sendto, socket, data, bytes, flags, nullptr, 0);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  return fails(kSend) ? -1 : syscall(SYS_sendmsg, socket, message, flags);
}

ssize_t recv(int socket, void* data, std::size_t bytes, int flags) {
  return fails(kReceive) ? -1 : syscall(SYS_recvfrom, socket, data, bytes, flags, nullptr, nullptr);
}

ssize_t recvmsg(int socket, msghdr* message, int flags) {
  return fails(kReceive) ? -1 : syscall(SYS_recvmsg, socket, message, flags);
}

int accept(int socket, sockaddr* address, socklen_t* length) {
  return fails(kAccept) ? -1 : static_cast<int>(syscall(SYS_accept4, socket, address, length, 0));
}

int accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  return fails(kAccept) ? -1 : static_cast<int>(syscall(SYS_accept4, socket, address, length, flags));
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return fails(kThread) ? errno : create(thread, attributes, run, argument);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier, performance-no-int-to-ptr)
