#include "cli/verify_output.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace reprofuse::cli {
namespace {

using Json = nlohmann::ordered_json;
using receipt::Evidence;
using receipt::Facts;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// In quotes, of a length to be read. Controls are escaped, those beyond ASCII too: a receipt is from somebody else.
std::string quoted(const std::string& text) {
  constexpr std::size_t kMaxBytes = 600;
  std::string line = dump(text);
  for (std::size_t at = 0; (at = line.find('\xC2', at)) != std::string::npos; ++at)
    if (const auto next = static_cast<unsigned char>(line[at + 1]); next >= 0x80 && next < 0xA0)
      line.replace(at, 2, fmt::format("\\u{:04x}", next));
  if (line.size() <= kMaxBytes) return line;
  std::size_t end = kMaxBytes;
  while ((static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // not within a character
  return fmt::format("{}... ({} bytes)", line.substr(0, end), text.size());
}

void print_facts(const Evidence& evidence, const Facts& facts) {
  const auto line = [](const char* name, const std::optional<std::string>& text) {
    if (text) fmt::print("  {:10}  {}\n", name, *text);
  };
  const auto quoted_line = [&](const char* name, const std::optional<std::string>& text) {
    if (text) line(name, quoted(*text));
  };
  quoted_line("contract", facts.contract);
  line("model", facts.model);
  quoted_line("prompt", facts.prompt);
  if (facts.answer)
    quoted_line("answer", facts.answer);
  else if (facts.digest)
    line("answer", fmt::format("{} tokens",
                               (evidence.receipt ? evidence.receipt->answer : evidence.claim->answer).tokens.size()));
  quoted_line("nonce", facts.nonce);
}

}  // namespace

void VerifyOutput::print(bool one_line_each) const {
  std::size_t right = 0;
  for (const Evidence* one : all) {
    const receipt::Report& report = one->report;
    if (report.is_open()) ++right;
    const bool adds_problem = one_line_each && !report.problem.empty();
    fmt::print("{}: {}{}{}\n", one->name, report.verdict_text(), adds_problem ? ": " : "",
               adds_problem ? report.problem : "");
    if (one_line_each) continue;
    print_facts(*one, facts_of(*one, tokenizer));
    if (!report.problem.empty()) fmt::print("  wrong       {}\n", report.problem);
    for (const std::string& line : report.proven) fmt::print("  proven      {}\n", line);
    for (const std::string& line : report.not_proven) fmt::print("  not proven  {}\n", line);
  }
  if (log) fmt::print("log: {}\n", *log);
  std::fflush(stdout);  // before what sums it up
  fmt::print(stderr, "{} of {} {}; loaded in {:.3f} s, checked in {:.3f} s\n", right, all.size(), extent, load_seconds,
             check_seconds);
}

void VerifyOutput::print_json() const {
  const auto or_null = [](const std::optional<std::string>& text) { return text ? Json(*text) : Json(); };
  Json receipts = Json::array();
  for (const Evidence* one : all) {
    const receipt::Report& report = one->report;
    const Facts facts = facts_of(*one, tokenizer);
    receipts.push_back({{"name", one->name},
                        {"verdict", report.verdict_text()},
                        {"status", static_cast<int>(report.verdict)},
                        {"problem", report.problem.empty() ? Json() : Json(report.problem)},
                        {"contract", or_null(facts.contract)},
                        {"model", or_null(facts.model)},
                        {"prompt", or_null(facts.prompt)},
                        {"text", or_null(facts.answer)},
                        {"nonce", or_null(facts.nonce)},
                        {"digest", or_null(facts.digest)},
                        {"proven", report.proven},
                        {"not_proven", report.not_proven}});
  }
  fmt::print("{}\n", dump({{"status", status},
                           {"receipts", receipts},
                           {"log", or_null(log)},
                           {"seconds", {{"load", load_seconds}, {"check", check_seconds}}}}));
}

}  // namespace reprofuse::cli
