// What `reprofuse verify` tells of the receipts that it was given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "receipt/replay.hpp"

namespace reprofuse::cli {

struct VerifyOutput {
  std::vector<receipt::Evidence*> all;
  std::optional<Tokenizer> tokenizer;
  std::optional<std::string> log;  // what they are as one; none: that was not asked
  std::string extent;              // of those that are right
  int status;
  double load_seconds;
  double check_seconds;

  void print(bool one_line_each) const;
  void print_json() const;
};

}  // namespace reprofuse::cli
