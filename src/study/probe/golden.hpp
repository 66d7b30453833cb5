// The committed digests of a contract's probe cases, as golden/<contract>.json holds them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "study/probe/cases.hpp"

namespace reprofuse::study {

struct GoldenCase {
  ProbeCase spec;
  std::string sha256;
};

struct Golden {
  std::string contract;
  std::vector<GoldenCase> cases;

  const GoldenCase* find(std::string_view name) const;  // null: not there
};

// `origin` names the text in error messages: a file, or "the built-in golden digests".
Golden parse_golden(std::string_view json, std::string_view origin);
Golden read_golden(const std::string& path);

// One case per line, so that a diff shows which one moved.
std::string to_json(const Golden& golden);

// The digests of a contract never change, so a file of them is never overwritten.
void require_new_file(const std::string& path);
void write_golden(const std::string& path, const Golden& golden);

}  // namespace reprofuse::study
