// What `reprofuse generate` writes for others to check: a signed receipt of the answer.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "receipt/log.hpp"

namespace reprofuse::cli {

struct ReceiptArguments {
  std::string file;  // empty: none is wanted
  std::string previous;
  receipt::ReceiptOptions options;
};

void add_receipt_options(CLI::App& command, ReceiptArguments& arguments);

class ReceiptWriter {
 public:
  // Looks for the key and the other files, and whether receipts can be had of these numerics, before anything is
  // computed.
  ReceiptWriter(const ReceiptArguments& arguments, const std::string& numerics);

  bool is_wanted() const { return !arguments_.file.empty(); }
  void write(const receipt::IssuerFacts& facts, const engine::Request& request, receipt::AnswerSteps answer);

 private:
  const ReceiptArguments& arguments_;
  std::string opening_;
  std::optional<receipt::SigningKey> key_;
  std::optional<receipt::Envelope> previous_;
};

}  // namespace reprofuse::cli
