#include "cli/generate_receipt.hpp"

#include <fstream>
#include <iterator>
#include <utility>

#include "base/check.hpp"
#include "cli/usage.hpp"

namespace reprofuse::cli {
namespace {

// Beside the receipt, since who gets the receipt need not get this.
std::string opening_file(const ReceiptArguments& arguments) {
  return arguments.file.empty() || !arguments.wishes.hide_prompt ? "" : arguments.file + ".opening";
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read", path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  require(!file.bad(), "{}: cannot be read", path);
  return text;
}

void add_receipt_options(CLI::App& command, ReceiptArguments& arguments) {
  CLI::Option* receipt = command.add_option("--receipt", arguments.file,
                                            "Write a receipt of the answer, signed by the key in the file that "
                                            "REPROFUSE_KEY names");
  receipt->type_name("FILE");
  command
      .add_flag("--receipt-hide-prompt", arguments.wishes.hide_prompt,
                "The receipt has a commitment to the prompt, and FILE.opening what opens it")
      ->needs(receipt);
  command
      .add_flag("--receipt-roots", arguments.wishes.roots,
                "The receipt has the root of each step's logits, for spot checks")
      ->needs(receipt);
  command.add_option("--receipt-nonce", arguments.wishes.nonce, "Something of your own for the receipt to say")
      ->type_name("TEXT")
      ->needs(receipt);
  command.add_option("--receipt-previous", arguments.previous, "The receipt that this one follows")
      ->type_name("FILE")
      ->needs(receipt);
}

ReceiptWriter::ReceiptWriter(const ReceiptArguments& arguments)
    : arguments_(arguments), file_(arguments.file), opening_(opening_file(arguments)) {
  if (!is_wanted()) return;
  check_usage(!arguments.wishes.nonce || arguments.wishes.nonce->size() <= receipt::kMaxNonceBytes,
              fmt::format("--receipt-nonce: more than {} bytes", receipt::kMaxNonceBytes));
  key_ = receipt::signing_key_of_environment();
  if (!arguments.previous.empty())
    previous_ = receipt::parse_envelope(read_file(arguments.previous), arguments.previous);
}

void ReceiptWriter::write(const receipt::IssuerFacts& facts, const engine::Request& request, receipt::Answer answer) {
  require(answer.finish_reason != engine::FinishReason::kCancelled && answer.steps() > 0,
          "the answer did not come to its end, so there is no receipt of it");
  receipt::Issuer issuer(*key_, facts);
  if (previous_) issuer.continue_after(*previous_);
  const receipt::Issued issued = issuer.issue(request, std::move(answer), arguments_.wishes);
  file_.write(issued.envelope.text() + "\n");
  if (issued.opening) opening_.write(issued.opening->text() + "\n");
}

}  // namespace reprofuse::cli
