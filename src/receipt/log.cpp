#include "receipt/log.hpp"

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

#include "base/check.hpp"
#include "base/hash.hpp"
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

// The number in the name of a receipt's file; 0: it is none.
std::uint64_t number_of(const std::string& folder, const fs::path& path) {
  const std::string name = path.filename();
  std::uint64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return path_of(folder, number).filename() == name ? number : 0;
}

std::vector<std::uint64_t> numbers_in(const std::string& folder) {
  std::vector<std::uint64_t> numbers;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::uint64_t number = number_of(folder, entry.path()); number > 0) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
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
  const bool is_kept = folder.is_open() && fsync(folder.get()) == 0;
  require(is_kept, "{}: its folder cannot be written: {}", path, system_problem());
}

std::vector<std::string> receipts_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const std::uint64_t number : numbers_in(folder)) files.push_back(path_of(folder, number));
  return files;
}

Envelope receipt_to_follow(std::string_view text, const std::string& name, const PublicKey& key) {
  const Evidence evidence = examine(text, name, key);
  require(evidence.signature_holds, "{}: no receipt can follow it: {}", name, evidence.report.problem);
  return *evidence.envelope;
}

Log::Log(const std::string& folder, const PublicKey& key) : folder_(folder), lock_(lock_folder(folder)) {
  remove_unfinished(folder);
  const std::vector<std::uint64_t> numbers = numbers_in(folder);
  if (numbers.empty()) return;
  last_number_ = numbers.back();
  missing_ = last_number_ - numbers.size();
  const std::string last = path_of(folder, last_number_);
  std::stringstream text;
  text << std::ifstream(last, std::ios::binary).rdbuf();
  last_hash_ = receipt_to_follow(text.str(), last, key).payload_hash();
}

void Log::append(const Envelope& envelope) {
  write_whole_file(path_of(folder_, last_number_ + 1), envelope.text() + "\n", S_IRUSR | S_IWUSR, Existing::kStays);
  ++last_number_;
  last_hash_ = envelope.payload_hash();
}

namespace {

bool names(const Evidence& one, const Evidence& before) {
  return before.receipt && one.receipt->previous == before.envelope->payload_hash();
}

// Nobody knows what is in it.
bool is_unread(const Evidence& one) {
  return !one.receipt && !one.claim && one.report.verdict == Verdict::kNotTried;
}

// Why one receipt does not follow another, as far as signatures and hashes tell. Empty: it does.
std::string why_not_following(const Evidence& before, const Evidence& one) {
  if (is_unread(before)) return fmt::format("whether it follows {} is not known", before.name);
  if (!names(one, before)) return fmt::format("it does not follow {}", before.name);
  if (one.receipt->issuer != before.receipt->issuer)
    return fmt::format("it follows {}, but by another key: {} there, {} here", before.name, before.receipt->issuer.id(),
                       one.receipt->issuer.id());
  return before.signature_holds ? "" : fmt::format("it follows {}, whose signature does not hold", before.name);
}

}  // namespace

LogReport check_log(const std::vector<Evidence*>& all, bool must_follow) {
  LogReport log;
  const auto break_at = [&](const Evidence& one, const std::string& why) {
    if (log.verdict != Verdict::kDiverged) log.text = fmt::format("broken at {}: {}", one.name, why);
    log.verdict = Verdict::kDiverged;
  };
  const Evidence* before = nullptr;
  for (Evidence* one : all) {
    const Evidence* const previous = std::exchange(before, one);
    Report& report = one->report;
    if (is_unread(*one)) {
      if (log.verdict == Verdict::kEqual) log = {Verdict::kNotTried, fmt::format("not checked: {}", report.problem)};
      continue;
    }
    if (!one->signature_holds) {
      break_at(*one, one->receipt ? "its signature does not hold" : "it is no receipt");
      if (must_follow && report.is_open())
        report.refuse(Verdict::kDiverged, "previous: it is no receipt, so no part of a log");
      continue;
    }
    const std::string why = previous == nullptr ? "" : why_not_following(*previous, *one);
    if (!why.empty() && !is_unread(*previous)) break_at(*one, why);
    const bool is_at_fault = must_follow && !why.empty() && previous->signature_holds;
    if (previous != nullptr && why.empty())
      report.proven.push_back(fmt::format("previous: it follows {}", previous->name));
    else if (is_at_fault && report.is_open())
      report.refuse(Verdict::kDiverged, "previous: " + why);
    else if (previous != nullptr && (must_follow || names(*one, *previous)))
      report.not_proven.push_back("previous: " + why);
    else if (one->receipt->previous)
      report.not_proven.emplace_back("previous: the receipt before it is not here to compare with");
    else
      report.not_proven.emplace_back("that it begins a log: the signer says so");
  }
  if (log.verdict == Verdict::kEqual && !all.empty()) {
    const Receipt& first = *all.front()->receipt;
    log.text =
        fmt::format("unbroken, {}, {} receipts by the key {}",
                    first.previous ? fmt::format("from the middle (what {} follows is not here)", all.front()->name)
                                   : "from its beginning",
                    all.size(), first.issuer.id());
  }
  return log;
}

Issuer::Issuer(SigningKey key, IssuerFacts facts, std::shared_ptr<Log> log)
    : key_(std::move(key)), facts_(std::move(facts)), log_(std::move(log)) {
  if (log_) previous_ = log_->last_hash();
}

Issued Issuer::issue(const engine::Request& request, AnswerSteps answer, const ReceiptOptions& options) {
  require(answer.step_count() > 0, "an answer without a token has no receipt");
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
                  .nonce = options.nonce,
                  .issuer = key_.public_key()};
  receipt.steps_root = to_hex(merkle_root(step_leaves(receipt.answer)));
  if (!options.roots) receipt.answer.roots.clear();
  if (options.hide_prompt) {
    issued.opening = Opening::of(std::exchange(receipt.request.prompt, {}));
    receipt.prompt_commitment = issued.opening->commitment();
  }
  const std::lock_guard lock(mutex_);
  receipt.previous = previous_;
  issued.envelope.payload = statement_of(receipt);
  issued.envelope.key_id = receipt.issuer.id();
  issued.envelope.signature = key_.sign(pre_authentication(issued.envelope.payload));
  if (log_) log_->append(issued.envelope);
  continue_after(issued.envelope);
  return issued;
}

IssuerFacts issuer_facts(const Context& context, Artifacts artifacts, std::string version) {
  // A device that takes an instruction set is named by that, which decides its kernels; others by what they are.
  const bool has_isa = parse_device(context.device()).backend->takes_threads;
  std::string device = has_isa ? context.device() : context.description();
  if (const std::size_t ordinal = device.find(':'); ordinal != std::string::npos)
    device.erase(ordinal, device.find(' ', ordinal) - ordinal);  // a machine's own affair
  return {.version = std::move(version),
          .contract = std::string(require_pinned(find_contract(context.numerics())).name),
          .artifacts = std::move(artifacts),
          .device = std::move(device),
          .isa = has_isa ? std::string(isa_name(context.isa())) : ""};
}

}  // namespace reprofuse::receipt
