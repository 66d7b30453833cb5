#include "receipt/issuer.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/merkle.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"

namespace reprofuse::receipt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".receipt.json";
constexpr std::string_view kUnfinished = ".part";

fs::path path_of(const std::string& folder, std::uint64_t number) {
  return fs::path(folder) / fmt::format("{:012}{}", number, kSuffix);
}

// The largest number of a receipt in the folder; 0: there is none.
std::uint64_t last_number(const std::string& folder) {
  std::uint64_t last = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    std::uint64_t number = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (failure == std::errc() && std::string_view(end) == kSuffix) last = std::max(last, number);
  }
  return last;
}

std::string system_problem() {
  return std::generic_category().message(errno);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (is_open()) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return number_ >= 0; }
  int get() const { return number_; }

 private:
  int number_;
};

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Two issuers would give the same number twice, and their logs would fork.
std::shared_ptr<const Descriptor> lock_folder(const std::string& folder) {
  auto lock = std::make_shared<const Descriptor>(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  require(lock->is_open(), "{}: is no folder for receipts: {}", folder, system_problem());
  require(flock(lock->get(), LOCK_EX | LOCK_NB) == 0, "{}: another server keeps its receipts there", folder);
  return lock;
}

// What a server left that was killed while it wrote.
void remove_unfinished(const std::string& folder) {
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename();
        name.ends_with(kUnfinished) && name.find(kSuffix) != std::string::npos)
      unfinished.push_back(entry.path());
  for (const fs::path& path : unfinished) fs::remove(path);
}

}  // namespace

// Under another name until it is on the disk, so that nobody reads half of one.
void write_whole_file(const std::string& path, std::string_view text, unsigned mode, Existing existing) {
  const std::string unfinished = fmt::format("{}.{}{}", path, getpid(), kUnfinished);
  const Descriptor file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  require(file.is_open(), "{}: cannot be written: {}", path, system_problem());
  const bool is_written = write_all(file.get(), text) && fsync(file.get()) == 0;
  const bool is_named = is_written && (existing == Existing::kIsReplaced ? rename(unfinished.c_str(), path.c_str()) == 0
                                                                         : link(unfinished.c_str(), path.c_str()) == 0);
  const std::string problem = is_named ? "" : system_problem();
  if (!is_named || existing == Existing::kStays) unlink(unfinished.c_str());
  require(is_named, "{}: cannot be written: {}", path, problem);
  const fs::path parent = fs::path(path).parent_path();
  const Descriptor folder(open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  require(folder.is_open() && fsync(folder.get()) == 0, "{}: its folder cannot be written: {}", path, system_problem());
}

Issuer::Issuer(SigningKey key, IssuerFacts facts, const std::string& folder)
    : key_(std::move(key)), facts_(std::move(facts)), folder_(folder) {
  if (folder_.empty()) return;
  lock_ = lock_folder(folder_);
  remove_unfinished(folder_);
  issued_ = last_number(folder_);
  if (issued_ == 0) return;
  const std::string last = path_of(folder_, issued_);
  std::stringstream text;
  text << std::ifstream(last, std::ios::binary).rdbuf();
  continue_after(parse_envelope(text.str(), last));
}

Issued Issuer::issue(const engine::Request& request, Answer answer, const Wishes& wishes) {
  require(answer.steps() > 0, "an answer without a token has no receipt");
  Issued issued;
  Receipt receipt{.version = facts_.version,
                  .contract = facts_.contract,
                  .artifacts = facts_.artifacts,
                  .request = request,
                  .prompt_commitment = {},
                  .answer = std::move(answer),
                  .steps_root = {},
                  .device = facts_.device,
                  .isa = facts_.isa,
                  .previous = {},
                  .nonce = wishes.nonce,
                  .issuer = key_.public_key()};
  receipt.steps_root = to_hex(merkle_root(step_leaves(receipt.answer)));
  if (!wishes.roots) receipt.answer.roots.clear();
  if (wishes.hide_prompt) {
    issued.opening = Opening::of(std::exchange(receipt.request.prompt, {}));
    receipt.prompt_commitment = issued.opening->commitment();
  }
  const std::lock_guard lock(mutex_);
  receipt.previous = previous_;
  issued.envelope.payload = statement_of(receipt);
  issued.envelope.key_id = receipt.issuer.id();
  issued.envelope.signature = key_.sign(pre_authentication(issued.envelope.payload));
  if (!folder_.empty())
    write_whole_file(path_of(folder_, issued_ + 1), issued.envelope.text() + "\n", S_IRUSR | S_IWUSR, Existing::kStays);
  continue_after(issued.envelope);
  ++issued_;
  return issued;
}

IssuerFacts issuer_facts(const Context& context, Artifacts artifacts, std::string version) {
  const bool is_cpu = parse_device(context.device()).backend->threads;
  std::string device = is_cpu ? context.device() : context.description();
  if (const std::size_t ordinal = device.find(':'); ordinal != std::string::npos)
    device.erase(ordinal, device.find(' ', ordinal) - ordinal);  // a machine's own affair
  return {.version = std::move(version),
          .contract = std::string(find_contract(context.numerics()).name),
          .artifacts = std::move(artifacts),
          .device = std::move(device),
          .isa = is_cpu ? std::string(isa_name(context.isa())) : ""};
}

}  // namespace reprofuse::receipt
