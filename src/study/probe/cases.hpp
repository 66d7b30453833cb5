// What the probe computes: fixed shapes with fixed seeds, and the digests committed for them in golden/. A case once
// released never changes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "reprofuse/types.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {

struct ProbeCase {
  std::string name;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  DType weights;
  bool bias;
  std::uint64_t seed;  // of x; the weights take seed + 1, the bias seed + 2

  std::int64_t multiply_adds() const { return m * n * k; }
  bool operator==(const ProbeCase&) const = default;
};

// The seven kinds of case first (decode and prefill in each weight type, ragged), then the nine ablation shapes.
std::vector<ProbeCase> all_probe_cases();
std::vector<ProbeCase> quick_probe_cases();  // the seven kinds

// The cases whose name matches one of `patterns` (shell globs), in their order. A pattern without a case is an error.
std::vector<ProbeCase> select_cases(std::span<const ProbeCase> cases, std::span<const std::string> patterns);

struct Operands {
  std::vector<float> x;  // [m, k]
  Weights weight;        // [n, k]
  std::vector<float> b;  // [n], or empty

  ConstMatrix x_view(std::int64_t rows) const { return {x.data(), rows, weight.k, weight.k}; }
  const float* bias() const { return b.empty() ? nullptr : b.data(); }
};

Operands make_operands(const ProbeCase& spec, ThreadPool& pool);

// The committed digests of a contract's probe cases, as golden/<contract>.json holds them.
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
