#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "study/runs/runs.hpp"

namespace reprofuse::study {
namespace {

constexpr std::string_view kMagic("reprofuse-run-1\n", 16);
constexpr std::size_t kFamilyBytes = 14;  // of it, those that the runs of every version begin with
constexpr std::size_t kChecksumBytes = 32;
constexpr std::size_t kHeadBytes = 5;  // of a record: its kind, and the bytes that follow
constexpr std::size_t kSecondsBytes = 12;

enum class Kind : std::uint8_t { kHeader = 1, kAnswer = 2, kSeconds = 3 };

class Bytes {
 public:
  template <typename Int>
  void add(Int value) {
    for (std::size_t i = 0; i < sizeof(Int); ++i)
      text_ += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * i);
  }
  void add_text(std::string_view text) {
    add(static_cast<std::uint32_t>(text.size()));
    text_ += text;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string checksum(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  const Sha256::Digest digest = hash.finish();
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string record(Kind kind, const std::string& payload) {
  Bytes bytes;
  bytes.add(static_cast<std::uint8_t>(kind));
  bytes.add(static_cast<std::uint32_t>(payload.size()));
  const std::string head_and_payload = bytes.text() + payload;
  return head_and_payload + checksum(head_and_payload);
}

// Takes values from the front. Whatever is not there is an error.
class Taker {
 public:
  Taker(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  template <typename Int>
  Int take() {
    const std::string_view word = take_bytes(sizeof(Int));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Int); ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(word[i])) << 8 * i;
    return static_cast<Int>(value);
  }
  std::string_view take_bytes(std::size_t count) {
    check(count <= bytes_.size(), "a record is too short");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view take_text() { return take_bytes(take<std::uint32_t>()); }
  std::size_t left() const { return bytes_.size(); }

  void check(bool condition, const char* what) const { require(condition, "{}: is no run: {}", file_, what); }

 private:
  std::string_view bytes_;
  const std::string& file_;
};

std::string header_json(const RunHeader& header) {
  nlohmann::ordered_json json = {{"version", header.version},
                                 {"model", header.model},
                                 {"task", header.task},
                                 {"device", header.device},
                                 {"vendor", header.vendor},
                                 {"machine", header.machine},
                                 {"batch", header.batch},
                                 {"settings", header.settings},
                                 {"cells", nlohmann::ordered_json::array()},
                                 {"problems", nlohmann::ordered_json::array()}};
  for (const RunCell& cell : header.cells)
    json["cells"].push_back({{"numerics", cell.numerics},
                             {"pins_bits", cell.pins_bits},
                             {"seed", std::to_string(cell.seed)},
                             {"fingerprint", cell.fingerprint}});
  for (const RunProblem& problem : header.problems)
    json["problems"].push_back(
        {{"id", problem.id}, {"prompt_sha256", problem.prompt_sha256}, {"answer", problem.answer}});
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RunHeader parse_header(std::string_view text, const std::string& file) {
  RunHeader header;
  try {
    const nlohmann::json json = parse_json(text, file, {.depth = 8});
    header.version = json.at("version").get<std::string>();
    header.model = json.at("model").get<std::string>();
    header.task = json.at("task").get<std::string>();
    header.device = json.at("device").get<std::string>();
    header.vendor = json.at("vendor").get<std::string>();
    header.batch = json.at("batch").get<std::int64_t>();
    header.machine = json.at("machine").get<std::string>();
    header.settings = json.at("settings").get<std::map<std::string, std::string>>();
    for (const nlohmann::json& cell : json.at("cells"))
      header.cells.push_back({cell.at("numerics").get<std::string>(), cell.at("pins_bits").get<bool>(),
                              std::stoull(cell.at("seed").get<std::string>()), cell.value("fingerprint", "")});
    for (const nlohmann::json& problem : json.at("problems"))
      header.problems.push_back({problem.at("id").get<std::string>(), problem.at("prompt_sha256").get<std::string>(),
                                 problem.at("answer").get<std::string>()});
  } catch (const std::exception& error) {  // of the JSON library, or a seed that is no number
    fail(ErrorCode::kInvalidArgument, "{}: is no run: its header is not understood: {}", file, error.what());
  }
  return header;
}

std::string answer_payload(const RunAnswer& answer) {
  Bytes bytes;
  bytes.add(answer.cell);
  bytes.add(answer.problem);
  bytes.add(static_cast<std::uint8_t>(answer.finish));
  bytes.add_text(answer.digest);
  bytes.add_text(answer.text);
  bytes.add(static_cast<std::uint32_t>(answer.steps.size()));
  for (const RunStep& step : answer.steps) {
    bytes.add(step.token);
    for (const std::int32_t id : step.ids) bytes.add(id);
    for (const float logprob : step.logprobs) bytes.add(std::bit_cast<std::uint32_t>(logprob));
  }
  return bytes.text();
}

RunAnswer parse_answer(Taker& from, const RunHeader& header) {
  RunAnswer answer;
  answer.cell = from.take<std::uint32_t>();
  answer.problem = from.take<std::uint32_t>();
  from.check(answer.cell < header.cells.size() && answer.problem < header.problems.size(),
             "an answer to a problem that it has not");
  const auto finish = from.take<std::uint8_t>();
  from.check(finish <= static_cast<std::uint8_t>(FinishReason::kError), "an answer that ends in an unknown way");
  answer.finish = static_cast<FinishReason>(finish);
  answer.digest = from.take_text();
  answer.text = from.take_text();
  constexpr std::size_t kStepBytes = (1 + 2 * kCandidates) * sizeof(std::uint32_t);
  const auto steps = from.take<std::uint32_t>();
  from.check(from.left() == steps * kStepBytes, "an answer has another number of steps than it says");
  for (std::uint32_t i = 0; i < steps; ++i) {
    RunStep& step = answer.steps.emplace_back();
    step.token = from.take<std::int32_t>();
    for (std::int32_t& id : step.ids) id = from.take<std::int32_t>();
    for (float& logprob : step.logprobs) logprob = std::bit_cast<float>(from.take<std::uint32_t>());
  }
  return answer;
}

// Whether a whole record, with its checksum, begins behind the first of these bytes. What could be the head of an
// answer is looked at for its sizes first, so that few checksums are computed; a file that is made to have many is
// given up.
bool has_record_inside(std::string_view bytes, const RunHeader& header, const std::string& file) {
  constexpr int kMaxAttempts = 64;
  int attempts = 0;
  for (std::size_t at = 1; bytes.size() - at > kHeadBytes + kChecksumBytes && attempts < kMaxAttempts; ++at) {
    const auto kind = static_cast<Kind>(bytes[at]);
    if (kind != Kind::kAnswer && kind != Kind::kSeconds) continue;
    Taker head(bytes.substr(at), file);
    head.take_bytes(1);
    const std::size_t length = head.take<std::uint32_t>();
    if (head.left() < length + kChecksumBytes || length < kSecondsBytes) continue;
    Taker payload(head.take_bytes(length), file);
    if (payload.take<std::uint32_t>() >= header.cells.size()) continue;
    if (kind == Kind::kSeconds ? length != kSecondsBytes : payload.take<std::uint32_t>() >= header.problems.size())
      continue;
    ++attempts;
    if (checksum(bytes.substr(at, kHeadBytes + length)) == head.take_bytes(kChecksumBytes)) return true;
  }
  return false;
}

// The run, and how many of the bytes are whole records.
std::pair<Run, std::size_t> parse(std::string_view bytes, const std::string& name) {
  Run run;
  run.name = name;
  Taker file(bytes, run.name);
  const std::string_view start = bytes.substr(0, kMagic.size());
  const bool is_other = start.size() == kMagic.size() && start.starts_with(kMagic.substr(0, kFamilyBytes));
  require(start == kMagic || !is_other, "{}: is a run of another version, {}; this one reads {}", name,
          shown(start.substr(0, start.find('\n'))), shown(kMagic.substr(0, kMagic.size() - 1)));
  file.check(bytes.starts_with(kMagic), "it does not begin as one");
  std::size_t at = kMagic.size();
  bool has_header = false;
  while (bytes.size() - at >= kHeadBytes) {
    Taker head(bytes.substr(at), run.name);
    const auto kind = static_cast<Kind>(head.take<std::uint8_t>());
    const std::size_t length = head.take<std::uint32_t>();
    if (head.left() < length + kChecksumBytes) {  // cut off, unless more follows
      require(!has_header || !has_record_inside(bytes.substr(at), run.header, run.name),
              "{}: the record at byte {} is damaged: its length is wrong", run.name, at);
      break;
    }
    Taker payload(head.take_bytes(length), run.name);
    const std::size_t whole = kHeadBytes + length;
    require(checksum(bytes.substr(at, whole)) == head.take_bytes(kChecksumBytes),
            "{}: the record at byte {} is damaged: its checksum is wrong", run.name, at);
    file.check((kind == Kind::kHeader) == !has_header, "its header is not its first record");
    switch (kind) {
      case Kind::kHeader:
        run.header = parse_header(payload.take_bytes(length), run.name);
        run.seconds.resize(run.header.cells.size());
        has_header = true;
        break;
      case Kind::kAnswer: {
        RunAnswer answer = parse_answer(payload, run.header);
        const std::pair key(answer.cell, answer.problem);
        file.check(run.answers.emplace(key, std::move(answer)).second, "it has an answer twice");
        break;
      }
      case Kind::kSeconds: {
        const auto cell = payload.take<std::uint32_t>();
        file.check(cell < run.seconds.size(), "the time of a cell that it has not");
        run.seconds[cell] += static_cast<double>(payload.take<std::uint64_t>()) * 1e-6;
        break;
      }
      default: file.check(false, "a record of an unknown kind, perhaps of a later version");
    }
    at += whole + kChecksumBytes;
  }
  file.check(has_header, "it has no header");
  return {std::move(run), at};
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read", path);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  require(!file.bad(), "{}: cannot be read", path);
  return bytes;
}

}  // namespace

Run parse_run(std::string_view bytes, const std::string& name) {
  return parse(bytes, name).first;
}

Run read_run(const std::string& path) {
  return parse_run(read_all(path), std::filesystem::path(path).filename().string());
}

RunWriter::RunWriter(const std::string& path, const RunHeader& header) : path_(path) {
  const std::string start = std::string(kMagic) + record(Kind::kHeader, header_json(header));
  std::error_code none;
  const bool is_new = !std::filesystem::exists(path, none) || std::filesystem::file_size(path, none) < start.size();
  if (!is_new) {
    auto [run, whole] = parse(read_all(path), std::filesystem::path(path).filename().string());
    require(header_json(run.header) == header_json(header),
            "{}: is a run of something else (task, model, settings, device or version); give another name", path);
    std::filesystem::resize_file(path, whole);
    done_ = std::move(run);
  }
  file_.reset(std::fopen(path.c_str(), is_new ? "wb" : "ab"));
  require(file_ != nullptr, "{}: cannot be written: {}", path, std::strerror(errno));
  if (!is_new) return;
  write(start);
  done_ = parse_run(start, std::filesystem::path(path).filename().string());
}

void RunWriter::add(const RunAnswer& answer) {
  write(record(Kind::kAnswer, answer_payload(answer)));
}

void RunWriter::add_seconds(std::uint32_t cell, double seconds) {
  Bytes bytes;
  bytes.add(cell);
  bytes.add(static_cast<std::uint64_t>(seconds * 1e6));
  write(record(Kind::kSeconds, bytes.text()));
}

void RunWriter::write(std::string_view record) {
  const bool is_written =
      std::fwrite(record.data(), 1, record.size(), file_.get()) == record.size() && std::fflush(file_.get()) == 0;
  require(is_written, "{}: cannot be written: {}", path_, std::strerror(errno));
}

}  // namespace reprofuse::study
