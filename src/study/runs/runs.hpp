// Tasks, runs of them, what differs between runs, and the page that shows it. A run is what a model answered to the
// problems of a task, by some numerics and in some orders, on one machine: a file that people can send to each other
// and compare. docs/study.md describes the format.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "engine/engine.hpp"
#include "engine/text_format.hpp"
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

// A task: prompts to answer, some with the right answer beside them; and answering them by one numerics after another,
// many at once.

struct Problem {
  std::string id;
  std::string prompt;                // or else
  nlohmann::ordered_json messages;   // of a chat, or else
  std::vector<std::int32_t> tokens;  // the prompt as ids
  std::string answer;                // the right one; empty: not known
};

// A problem per line: JSON objects with `prompt`, `messages` or `prompt_tokens`, perhaps `id` and `answer`, where the
// first line begins with a brace; otherwise each line is a prompt. Empty lines do not count. Throws kInvalidArgument
// with file and line.
std::vector<Problem> parse_task(std::string_view text, const std::string& file);
std::vector<Problem> read_task(const std::string& path);

// Messages go through the chat template, and so do prompts where `chat` says so.
std::vector<std::int32_t> prompt_tokens(const Problem& problem, const engine::TextFormat& text,
                                        const text::DateTime& date, bool chat);

// Whether a text gives the right answer: its last number, if that is a number; its last capital letter that stands
// alone, if that is a letter; or else its last words.
bool is_right(std::string_view text, std::string_view answer);

struct RunRequest {
  std::vector<std::vector<std::int32_t>> prompts;  // of the header's problems
  std::int64_t max_tokens = 256;
  SamplingParams sampling;  // its seed is the same in every cell
  std::vector<std::int32_t> stop_tokens;
  std::int64_t batch = 32;  // answers at once
};

struct RunProgress {
  std::uint32_t cell = 0;
  std::int64_t answers = 0;  // of this cell that are there
  std::int64_t new_tokens = 0;
  double seconds = 0;  // in which they came
};

// The order in which the problems arrive under a seed: 0 is that of the task.
std::vector<std::uint32_t> arrival_order(std::uint64_t seed, std::size_t problems);

// Fills in one cell: what the writer has already is not asked for again. The model is one of the cell's numerics.
void make_cell(RunWriter& writer, std::uint32_t cell, const model::Model& model, const RunRequest& request,
               const Tokenizer* tokenizer, const std::function<void(const RunProgress&)>& progress);

// The SHA-256 of token ids, each a little-endian word, in hex.
std::string tokens_sha256(const std::vector<std::int32_t>& tokens);

// How often answers differ between machines and between orders of arrival, where they first do, and why: the metrics of
// the paper, computed from runs. docs/study.md defines each.

// Pairs of answers to one problem.
struct Divergence {
  std::int64_t pairs = 0;
  std::int64_t divergent = 0;            // pairs whose tokens differ
  std::int64_t other_digests = 0;        // pairs with the same tokens and other logits
  double first_index_sum = 0;            // of the first differing token, over the divergent pairs
  std::int64_t positions = 0;            // that both pass with the same tokens so far
  std::int64_t equal_margins = 0;        // of these, with the same margin, bit for bit
  std::int64_t exposed = 0;              // of these, where the shift is larger than the margin
  std::vector<float> shifts = {};        // |margin of one - margin of the other|, of these
  std::vector<float> flip_margins = {};  // at the first differing token

  double fraction() const { return pairs == 0 ? 0 : static_cast<double>(divergent) / static_cast<double>(pairs); }
  std::optional<double> mean_first_index() const {  // Div_Index
    return divergent == 0 ? std::nullopt : std::optional(first_index_sum / static_cast<double>(divergent));
  }
};

struct PairOfRuns {
  std::string a = {}, b = {};
  Divergence divergence = {};
};

struct Accuracy {
  std::int64_t known = 0, right = 0;
  double low = 0, high = 0;  // Wilson's interval of 95 %
};

struct CellTime {
  std::string run = {};
  double mean_seconds = 0, deviation = 0;  // over the seeds; of a sample
  double tokens_per_second = 0;
  Accuracy accuracy = {};
};

// Everything about one numerics.
struct MethodResult {
  std::string numerics = {};
  bool pins_bits = false;
  std::int64_t problems = 0;
  std::int64_t divergent_problems = 0;  // between at least one pair of runs at a seed that both have
  Divergence between_runs = {};         // all pairs of runs at matched seeds
  std::vector<PairOfRuns> pairs = {};
  Divergence between_seeds = {};              // pairs of seeds within a run
  std::vector<float> margins = {};            // of every step, in ascending order
  std::optional<double> tail_slope = {};      // P(margin <= x) / x at x = 0.1; none: no margin is that small
  std::optional<double> flip_per_token = {};  // p = 1/2 E[P(margin < |shift|)]
  std::optional<double> predicted = {};       // of the pairs, those that diverge: the mean of 1 - (1 - p)^L
  std::optional<double> measured = {};
  std::vector<CellTime> times = {};

  double divergent_fraction() const {  // Div%
    return problems == 0 ? 0 : static_cast<double>(divergent_problems) / static_cast<double>(problems);
  }
  bool moved() const;  // something differs that a contract pins
  // The pairs that shifts are about: those between runs, or else between seeds.
  const Divergence& compared() const { return between_runs.pairs > 0 ? between_runs : between_seeds; }
};

// Contracts before baselines, each in the order of the runs. Throws kInvalidArgument, with the reason, for runs that
// cannot be compared: of other models, problems or settings, or not finished.
std::vector<MethodResult> compare_runs(std::span<const Run> runs);

// Throws where a contract moved.
void require_unmoved(std::span<const MethodResult> methods);

// The value below which a part of them lies; they are in ascending order. 0 where there are none.
float quantile(std::span<const float> ascending, double part);

// How values are distributed, for a figure with a logarithmic axis.
struct Curve {
  double zero = 0;                  // the part that is exactly 0
  int first = 0;                    // values[i] is the part that is at most 10^((first + i) / 16), ending with 1
  std::vector<double> values = {};  // none: all are 0, or there is none
};
Curve cumulative_curve(std::span<const float> ascending);

Accuracy accuracy_of(std::int64_t known, std::int64_t right);

// What `study compare` computes of one or several tasks, and measurements from elsewhere, as one page that needs no
// network. docs/study.md describes it.

nlohmann::ordered_json to_json(const MethodResult& method);
nlohmann::ordered_json to_json(const Run& run);  // where and how it was made; not its answers

// Runs of the same model and task, and what differs between them.
struct ReportGroup {
  std::vector<Run> runs;
  std::vector<MethodResult> methods;
};
// In the order of the runs. Throws kInvalidArgument, with the reason, where runs of a group cannot be compared.
std::vector<ReportGroup> compare_by_task(std::vector<Run> runs);

// Results of other commands, by file: `bench linear` or `bench engine`, `study memory`, `ablate`.
struct ReportFiles {
  std::vector<std::string> benches = {}, memory = {}, ablations = {};
};

// Throws kInvalidArgument, with the reason, for a file that holds something else than it should.
std::string report_page(std::span<const ReportGroup> groups, const ReportFiles& files, const std::string& version);

// The page without its data: the files of web/report/ and the library that draws, carried in the binary
// (cmake/EmbedAssets.cmake). "/index.html", and the files that it names. None: there is no such file.
std::optional<Asset> report_asset(std::string_view path);

}  // namespace reprofuse::study
