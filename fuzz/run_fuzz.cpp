// The target: runs of a study, as `reprofuse study compare` reads them and `reprofuse study run` goes on with them.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "bytes_target.hpp"
#include "study/runs/runs.hpp"

namespace reprofuse::fuzz {
namespace {

constexpr std::size_t kMagicBytes = 16, kHeadBytes = 5, kChecksumBytes = 32;

struct Record {
  std::uint8_t kind;
  std::size_t begin, payload_end;
};

// The whole records after the first line, whatever their checksums: docs/study.md, written a second time.
std::vector<Record> records_of(std::span<const std::uint8_t> bytes) {
  std::vector<Record> records;
  for (std::size_t at = kMagicBytes; bytes.size() >= at + kHeadBytes;) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length |= static_cast<std::size_t>(bytes[at + 1 + i]) << 8 * i;
    if (bytes.size() - at - kHeadBytes < length + kChecksumBytes) break;
    records.push_back({bytes[at], at, at + kHeadBytes + length});
    at += kHeadBytes + length + kChecksumBytes;
  }
  return records;
}

std::string some_run(std::uint32_t cells, std::uint32_t problems) {
  study::RunHeader header{.version = "1", .device = "cpu", .machine = "m", .settings = {{"date", "d"}}};
  for (std::uint32_t cell = 0; cell < cells; ++cell) header.cells.push_back({"n", true, cell});
  for (std::uint32_t i = 0; i < problems; ++i) header.problems.push_back({std::to_string(i), "ab", "4"});
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("reprofuse_run_fuzz_{}", getpid())).string();
  {
    study::RunWriter writer(path, header);
    for (std::uint32_t cell = 0; cell < cells; ++cell) {
      for (std::uint32_t i = 0; i < problems; ++i)
        writer.add({.cell = cell,
                    .problem = i,
                    .finish = FinishReason::kStop,
                    .digest = "tree-1:00",
                    .text = "4",
                    .steps = std::vector<study::RunStep>(i + 1)});
      writer.add_seconds(cell, 1.5);
    }
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  return bytes;
}

std::optional<std::string> try_run(std::span<const std::uint8_t> input, Sabotage sabotage) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  study::Run run = study::parse_run(text, "fuzz");
  if (sabotage == Sabotage::kAlterResult) run.answers.erase(run.answers.begin());
  std::size_t answers = 0;
  for (const Record& record : records_of(input)) answers += record.kind == 2 ? 1 : 0;
  if (run.answers.size() != answers) return fmt::format("{} answers of {} records", run.answers.size(), answers);
  if (run.seconds.size() != run.header.cells.size()) return "times of other cells";
  for (const auto& [key, answer] : run.answers) {
    if (key != std::pair(answer.cell, answer.problem)) return "an answer in the place of another";
    if (answer.cell >= run.header.cells.size() || answer.problem >= run.header.problems.size())
      return "an answer to nothing";
  }
  return std::nullopt;
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  return outcome_of([&] { return try_run(input, sabotage); });
}

std::vector<Bytes> valid_inputs() {
  std::vector<Bytes> inputs;
  for (const auto& [cells, problems] : {std::pair(1U, 1U), {2U, 3U}}) {
    const std::string text = some_run(cells, problems);
    inputs.emplace_back(text.begin(), text.end());
  }
  return inputs;
}

std::vector<std::string_view> dictionary() {
  return {"reprofuse-run-1\n", "\"cells\"",          "\"problems\"", "\"seed\"",
          "\"settings\"",      "\"pins_bits\":true", "{}",           "[]"};
}

bool takes_every_input() {
  return false;
}

// Checksums, without which no mutation would get any further.
void repair(Bytes& input) {
  for (const Record& record : records_of(input)) {
    Sha256 hash;
    hash.update(input.data() + record.begin, record.payload_end - record.begin);
    const Sha256::Digest digest = hash.finish();
    std::copy(digest.begin(), digest.end(), input.begin() + static_cast<std::ptrdiff_t>(record.payload_end));
  }
}

}  // namespace reprofuse::fuzz
