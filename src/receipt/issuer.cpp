#include "receipt/issuer.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/check.hpp"
#include "base/merkle.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"

namespace reprofuse::receipt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".receipt.json";

fs::path path_of(const std::string& folder, std::uint64_t number) {
  return fs::path(folder) / fmt::format("{:012}{}", number, kSuffix);
}

// The largest number of a receipt in the folder; 0: there is none.
std::uint64_t last_number(const std::string& folder) {
  std::error_code error;
  require(fs::is_directory(folder, error), "{}: is no folder for receipts", folder);
  std::uint64_t last = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    std::uint64_t number = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (failure == std::errc() && std::string_view(end) == kSuffix) last = std::max(last, number);
  }
  return last;
}

}  // namespace

Issuer::Issuer(SigningKey key, IssuerFacts facts, const std::string& folder)
    : key_(std::move(key)), facts_(std::move(facts)), folder_(folder) {
  if (folder_.empty()) return;
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
  if (!folder_.empty()) keep(issued.envelope);
  continue_after(issued.envelope);
  ++issued_;
  return issued;
}

// Under another name until it is whole, so that nobody reads half of one.
void Issuer::keep(const Envelope& envelope) const {
  const fs::path path = path_of(folder_, issued_ + 1);
  const fs::path unfinished = path.string() + ".part";
  std::ofstream file(unfinished, std::ios::binary);
  file << envelope.text() << '\n';
  file.close();
  std::error_code error;
  if (!file.fail()) fs::rename(unfinished, path, error);
  require(!file.fail() && !error, "{}: the receipt cannot be written", path.string());
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
