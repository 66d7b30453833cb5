// A run: what a model answered to the problems of a task, by some numerics and in some orders, on one machine. It is a
// file that people can send to each other and compare. docs/study.md describes the format.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/answer.hpp"

namespace reprofuse::study {

inline constexpr int kCandidates = 5;  // likeliest tokens that are kept of each step

// What was asked under one numerics in one order.
struct RunCell {
  std::string numerics = {};
  bool pins_bits = false;        // a contract; false: a baseline
  std::uint64_t seed = 0;        // of the order of arrival
  std::string fingerprint = {};  // as a server with these settings has it; empty: the run is from before there was one
};

struct RunProblem {
  std::string id = {};
  std::string prompt_sha256 = {};  // of its token ids
  std::string answer = {};         // the right one; empty: not known
};

struct RunHeader {
  std::string version = {};
  std::string model = {}, task = {};  // names for readers
  std::string device = {};            // "cpu avx512, 2 threads"
  std::string vendor = {};            // what computes baselines: "OpenBLAS 0.3.21, Haswell"; empty: there is none
  std::string machine = {};
  std::int64_t batch = 0;  // answers at once
  std::map<std::string, std::string> settings =
      {};  // what decides answers: the model's digest, the longest answer, ...
  std::vector<RunCell> cells = {};
  std::vector<RunProblem> problems = {};
};

struct RunStep {
  std::int32_t token = 0;
  std::array<std::int32_t, kCandidates> ids{};
  std::array<float, kCandidates> logprobs{};

  float margin() const { return logprobs[0] - logprobs[1]; }  // of the likeliest token over the second
};

struct RunAnswer {
  std::uint32_t cell = 0, problem = 0;
  FinishReason finish = FinishReason::kLength;
  std::string digest = {};  // of the logits of every step, kind tree-1
  std::string text = {};
  std::vector<RunStep> steps = {};
};

struct Run {
  std::string name = {};  // of the file
  RunHeader header;
  std::map<std::pair<std::uint32_t, std::uint32_t>, RunAnswer> answers = {};  // by cell and problem
  std::vector<double> seconds = {};                                           // by cell
  bool complete() const { return answers.size() == header.cells.size() * header.problems.size(); }
};

// Throws kInvalidArgument, with the file's name, for what is no run or has a record whose checksum is wrong. A record
// that is cut off at the end is left out: whoever wrote it was interrupted.
Run parse_run(std::string_view bytes, const std::string& name);
Run read_run(const std::string& path);

// Adds records to a file, each written whole.
class RunWriter {
 public:
  // A new file, or one that has this very header: then `done` has what is in it, and what is cut off is removed.
  RunWriter(const std::string& path, const RunHeader& header);

  const Run& done() const { return done_; }
  void add(const RunAnswer& answer);
  void add_seconds(std::uint32_t cell, double seconds);

 private:
  void write(std::string_view record);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  Run done_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace reprofuse::study
