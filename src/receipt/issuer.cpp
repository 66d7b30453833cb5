#include "receipt/issuer.hpp"

#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"

namespace reprofuse::receipt {

Issuer::Issuer(SigningKey key, IssuerFacts facts, std::shared_ptr<Log> log)
    : key_(std::move(key)), facts_(std::move(facts)), log_(std::move(log)) {
  if (log_) previous_ = log_->last_hash();
}

Issued Issuer::issue(const engine::Request& request, Answer answer, const ReceiptOptions& options) {
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
  const bool is_cpu = parse_device(context.device()).backend->threads;
  std::string device = is_cpu ? context.device() : context.description();
  if (const std::size_t ordinal = device.find(':'); ordinal != std::string::npos)
    device.erase(ordinal, device.find(' ', ordinal) - ordinal);  // a machine's own affair
  return {.version = std::move(version),
          .contract = std::string(find_pinned(context.numerics()).name),
          .artifacts = std::move(artifacts),
          .device = std::move(device),
          .isa = is_cpu ? std::string(isa_name(context.isa())) : ""};
}

}  // namespace reprofuse::receipt
