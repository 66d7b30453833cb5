#include "cli/serve_log.hpp"

#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include "base/check.hpp"
#include "cli/terminal.hpp"

namespace reprofuse::cli {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;  // that wait to be written
constexpr std::chrono::milliseconds kPatience{1'000};    // for a reader to take something
constexpr std::chrono::milliseconds kLastPatience{200};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32] = {};
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

std::string line_of(const server::RequestLogEntry& entry) {
  std::string line =
      fmt::format("{} {} {} {} {} ms", utc_now(), entry.status, entry.method.empty() ? "-" : entry.method,
                  entry.path.empty() ? "-" : entry.path, entry.time.count());
  if (entry.prompt_tokens > 0) line += fmt::format(", {} + {} tokens", entry.prompt_tokens, entry.answer_tokens);
  if (!entry.id.empty()) line += ", " + entry.id;
  if (!entry.note.empty()) line += ", " + entry.note;
  return line;
}

ServeLog::ServeLog(int descriptor) : descriptor_(descriptor), thread_([this] { run(); }) {}

ServeLog::~ServeLog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void ServeLog::add(std::string line) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (bytes_ + line.size() > kMaxBytes) {
      ++dropped_;
      return;
    }
    line += '\n';
    const std::size_t bytes = line.size();
    lines_.push_back(std::move(line));
    bytes_ += bytes;
    changed_.notify_all();
  } catch (const std::exception&) {
    ++dropped_;
  }
}

std::uint64_t ServeLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void ServeLog::run() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_over_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    bytes_ -= line.size();
    const bool is_last_chance = is_over_;
    lock.unlock();
    const bool is_written = write_patiently(descriptor_, line, is_last_chance ? kLastPatience : kPatience);
    lock.lock();
    if (!is_written) ++dropped_;
    if (is_over_ && !is_written) {  // nobody reads, or nothing can be written: no more of it
      dropped_ += lines_.size();
      return;
    }
  }
}

}  // namespace reprofuse::cli
