#include "cli/generate_receipt.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.hpp"
#include "cli/input_files.hpp"
#include "cli/usage.hpp"
#include "ops/contract.hpp"

namespace reprofuse::cli {
namespace {

namespace fs = std::filesystem;

// Beside the receipt, since who gets the receipt need not get this.
std::string opening_file(const ReceiptArguments& arguments) {
  return arguments.file.empty() || !arguments.options.hide_prompt ? "" : arguments.file + ".opening";
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;  // one that is not there is no other
  return fs::equivalent(a, b, error) && !error;
}

// Before anything is computed, and without making it.
void check_place(const std::string& file) {
  const std::string folder = fs::path(file).parent_path();
  const std::string place = fs::exists(file) ? file : folder.empty() ? "." : folder;
  require(!fs::is_directory(file), "{}: cannot be written: is a folder", file);
  const bool is_writable = access(place.c_str(), W_OK) == 0;
  require(is_writable, "{}: cannot be written: {}", file, std::strerror(errno));
}

// The descriptor of this process that a path such as /dev/stdout stands for; none: it is a file of its own.
std::optional<int> descriptor_of(fs::path path) {
  constexpr int kMaxLinks = 40;
  std::error_code error;
  for (int links = 0; links < kMaxLinks; ++links) {
    const std::string name = path.filename();
    int number = -1;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = failure == std::errc() && end == name.data() + name.size();
    if (is_number && is_same_file(path.parent_path(), "/proc/self/fd")) return number;
    const fs::path target = fs::read_symlink(path, error);
    if (error) return std::nullopt;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return std::nullopt;
}

// What a symbolic link names is replaced, not the link; a descriptor, a pipe or a device is written to.
void write_file(const std::string& file, const std::string& text, unsigned mode) {
  const std::optional<int> descriptor = descriptor_of(file);
  if (!descriptor && (!fs::exists(file) || fs::is_regular_file(file))) {
    const std::string path = fs::exists(file) ? fs::canonical(file).string() : file;
    return receipt::write_whole_file(path, text, mode, receipt::Existing::kIsReplaced);
  }
  std::fflush(stdout);  // what was printed comes first
  const int place = descriptor ? dup(*descriptor) : open(file.c_str(), O_WRONLY | O_CLOEXEC);
  std::FILE* stream = place < 0 ? nullptr : fdopen(place, "w");
  const bool is_written = stream != nullptr && std::fputs(text.c_str(), stream) >= 0;
  const bool is_closed = stream != nullptr && std::fclose(stream) == 0;
  require(is_written && is_closed, "{}: cannot be written: {}", file, std::strerror(errno));
}

}  // namespace

void add_receipt_options(CLI::App& command, ReceiptArguments& arguments) {
  CLI::Option* receipt = command.add_option("--receipt", arguments.file,
                                            "Write a receipt of the answer, signed by the key in the file that "
                                            "REPROFUSE_KEY names");
  receipt->type_name("FILE");
  command
      .add_flag("--receipt-hide-prompt", arguments.options.hide_prompt,
                "The receipt has a commitment to the prompt, and FILE.opening what opens it")
      ->needs(receipt);
  command
      .add_flag("--receipt-roots", arguments.options.roots,
                "The receipt has the root of each step's logits, for spot checks")
      ->needs(receipt);
  command.add_option("--receipt-nonce", arguments.options.nonce, "Something of your own for the receipt to say")
      ->type_name("TEXT")
      ->needs(receipt);
  command.add_option("--receipt-previous", arguments.previous, "The receipt that this one follows")
      ->type_name("FILE")
      ->needs(receipt);
}

ReceiptWriter::ReceiptWriter(const ReceiptArguments& arguments, const std::string& numerics)
    : arguments_(arguments), opening_(opening_file(arguments)) {
  if (!is_wanted()) return;
  check_usage(arguments.file != "-", "--receipt: '-' is no file, and stdout has the answer; /dev/stdout is both");
  reading_option("--receipt", [&] { require_pinned(find_contract(numerics)); });
  const receipt::ReceiptOptions& options = arguments.options;
  check_usage(!options.nonce || options.nonce->size() <= receipt::kMaxNonceBytes,
              fmt::format("--receipt-nonce: more than {} bytes", receipt::kMaxNonceBytes));
  if (options.nonce) reading_option("--receipt-nonce", [&] { return receipt::canonical_json(*options.nonce); });
  key_ = receipt::signing_key_of_environment();
  if (!arguments.previous.empty())
    previous_ = reading_option("--receipt-previous", [&] {
      return receipt::receipt_to_follow(read_file(arguments.previous), arguments.previous, key_->public_key());
    });
  for (const std::string& file : {arguments.file, opening_}) {
    if (file.empty()) continue;
    check_place(file);
    require(!is_same_file(file, std::getenv("REPROFUSE_KEY")), "{}: is the key, which a receipt would replace", file);
    require(!is_same_file(file, arguments.previous), "{}: is the receipt that this one follows", file);
  }
}

void ReceiptWriter::write(const receipt::IssuerFacts& facts, const engine::Request& request,
                          receipt::AnswerSteps answer) {
  require(answer.finish_reason != engine::FinishReason::kCancelled && answer.step_count() > 0,
          "the answer did not come to its end, so there is no receipt of it");
  receipt::Issuer issuer(*key_, facts);
  if (previous_) issuer.continue_after(*previous_);
  const receipt::Issued issued = issuer.issue(request, std::move(answer), arguments_.options);
  // First what cannot be made again.
  if (issued.opening) write_file(opening_, issued.opening->text() + "\n", S_IRUSR | S_IWUSR);
  write_file(arguments_.file, issued.envelope.text() + "\n", S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
}

}  // namespace reprofuse::cli
