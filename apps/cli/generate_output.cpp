#include "cli/generate_output.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/thread_pool.hpp"
#include "checkpoint/digest.hpp"

namespace reprofuse::cli {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const SamplingParams& params) {
  return {{"temperature", params.temperature},
          {"top_k", params.top_k},
          {"top_p", params.top_p},
          {"min_p", params.min_p},
          {"repetition_penalty", params.repetition_penalty},
          {"seed", params.seed}};
}

// A line for each key, a list on the line of its key: dump() would give every token a line of its own.
std::string to_lines(const ordered_json& value, std::size_t indent = 0) {
  if (!value.is_structured()) return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::vector<std::string> parts;
  for (const auto& [key, part] : value.items()) {
    const std::string text = to_lines(part, indent + 2);
    parts.push_back(value.is_array() ? text
                                     : fmt::format("{:{}}{}: {}", "", indent + 2, ordered_json(key).dump(), text));
  }
  if (value.is_array()) return fmt::format("[{}]", fmt::join(parts, ", "));
  return fmt::format("{{\n{}\n{:{}}}}", fmt::join(parts, ",\n"), "", indent);
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

AnswerWriter::AnswerWriter(const engine::TextFormat& format, bool to_stdout) : to_stdout_(to_stdout) {
  if (!format.has_tokenizer()) return;
  detokenizer_.emplace(format.tokenizer());
  text_.emplace();
}

bool AnswerWriter::push(std::int32_t token) {
  if (detokenizer_) {
    const std::string piece = detokenizer_->push(token);
    *text_ += piece;
    write(piece);
  } else {
    write(fmt::format("{}{}", first_ ? "" : " ", token));
  }
  first_ = false;
  return std::ferror(stdout) == 0;
}

void AnswerWriter::finish() {
  if (detokenizer_) {
    const std::string rest = detokenizer_->flush();
    *text_ += rest;
    write(rest);
  }
  write("\n");
}

void AnswerWriter::write(const std::string& piece) const {
  if (!to_stdout_ || piece.empty()) return;
  fmt::print("{}", piece);
  std::fflush(stdout);
}

void GenerateOutput::print_notes() const {
  if (date) fmt::print(stderr, "the chat template sees the date {}\n", text::to_string(*date));
  if (options.stop_tokens.empty()) fmt::print(stderr, "no token ends the answer, only its length\n");
  const SamplingParams& params = options.sampling;
  if (params.temperature > 0)
    fmt::print(stderr, "sampling: temperature {}, top-k {}, top-p {}, min-p {}, repetition penalty {}, seed {}\n",
               params.temperature, params.top_k, params.top_p, params.min_p, params.repetition_penalty, params.seed);
}

void GenerateOutput::print_end(const model::GenerateResult& result) const {
  if (options.digest) fmt::print("digest {}\n", result.digest);
  std::fflush(stdout);
  if (result.tokens.empty() && files.text().has_chat_template())
    fmt::print(stderr, "the model ended its answer at once; a chat model wants --chat\n");
  fmt::print(stderr, "{} on {}\nprompt: {} in {:.3f} s; answer: {}", context.numerics(), context.description(),
             counted(prompt.size(), "token"), result.prefill_seconds, counted(result.tokens.size(), "token"));
  // The first token comes with the prefill; a rate takes at least one more.
  if (result.steps > 1)
    fmt::print(stderr, " at {:.1f} per second", static_cast<double>(result.steps - 1) / result.decode_seconds);
  fmt::print(stderr, "\n");
}

void GenerateOutput::print_json(const std::optional<std::string>& text, const model::GenerateResult& result) const {
  ordered_json root = {{"text", text ? ordered_json(*text) : ordered_json(nullptr)},
                       {"tokens", result.tokens},
                       {"prompt_tokens", prompt},
                       {"finish_reason", model::finish_reason_name(result.finish)},
                       {"numerics", context.numerics()},
                       {"device", context.description()},
                       {"sampling", to_json(options.sampling)}};
  if (date) root["date"] = text::to_string(*date);
  if (options.digest) {
    ThreadPool pool(available_cores());
    root["digest"] = result.digest;
    root["model_digest"] = checkpoint::model_digest(files.checkpoint(), pool);
  }
  root["prefill_seconds"] = result.prefill_seconds;
  root["decode_seconds"] = result.decode_seconds;
  fmt::print("{}\n", to_lines(root));
}

}  // namespace reprofuse::cli
