#include "cli/generate_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <span>

#include "cli/terminal.hpp"
#include "ops/context_state.hpp"

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

// A line for each key, and one for each object in a list; a list of numbers on the line of its key: dump() would give
// every token a line of its own.
std::string to_lines(const ordered_json& value, std::size_t indent = 0) {
  if (!value.is_structured()) return on_one_line(value);
  const bool has_objects = value.is_array() && !value.empty() && value.front().is_object();
  std::vector<std::string> parts;
  for (const auto& [key, part] : value.items()) {
    const std::string text = has_objects ? on_one_line(part) : to_lines(part, indent + 2);
    if (has_objects)
      parts.push_back(fmt::format("{:{}}{}", "", indent + 2, text));
    else
      parts.push_back(value.is_array() ? text
                                       : fmt::format("{:{}}{}: {}", "", indent + 2, ordered_json(key).dump(), text));
  }
  if (has_objects) return fmt::format("[\n{}\n{:{}}]", fmt::join(parts, ",\n"), "", indent);
  if (value.is_array()) return fmt::format("[{}]", fmt::join(parts, ", "));
  return fmt::format("{{\n{}\n{:{}}}}", fmt::join(parts, ",\n"), "", indent);
}

// The margin of a step: by how much the likeliest token was likelier than the second. None: there is one token.
std::optional<float> margin_of(const engine::Likelihood& likelihood) {
  if (likelihood.top.size() < 2) return std::nullopt;
  return likelihood.top[0].logprob - likelihood.top[1].logprob;
}

std::span<const TokenLogprob> shown_of(const engine::Likelihood& likelihood, int count) {
  return std::span(likelihood.top).first(std::min(likelihood.top.size(), static_cast<std::size_t>(count)));
}

// A line for each token: what was chosen, the margin of its step, and the likeliest.
void print_likelihoods(const Answer& answer, const engine::TextFormat& text) {
  if (answer.logprobs() < 0) return;
  const auto name = [&](std::int32_t id) { return on_one_line(text.token_name(id)); };
  fmt::print("\n{:>8}  {:<16} {:>10} {:>9}  {}\n", "token", "text", "logprob", "margin",
             answer.logprobs() > 0 ? "likeliest" : "");
  for (std::size_t i = 0; i < answer.likelihoods().size(); ++i) {
    const engine::Likelihood& likelihood = answer.likelihoods()[i];
    const std::optional<float> margin = margin_of(likelihood);
    std::vector<std::string> likeliest;
    for (const TokenLogprob& other : shown_of(likelihood, answer.logprobs()))
      likeliest.push_back(fmt::format("{} {} {:.4g}", other.id, name(other.id), other.logprob));
    fmt::print("{:>8}  {:<16} {:>10.4g} {:>9}  {}\n", answer.tokens()[i], name(answer.tokens()[i]), likelihood.logprob,
               margin ? fmt::format("{:.4g}", *margin) : "-", fmt::join(likeliest, ", "));
  }
}

ordered_json likelihoods_json(const Answer& answer, const engine::TextFormat& text) {
  const auto entry = [&](std::int32_t id, float logprob) {
    return ordered_json{{"id", id}, {"text", text.token_name(id)}, {"logprob", logprob}};
  };
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < answer.likelihoods().size(); ++i) {
    const engine::Likelihood& likelihood = answer.likelihoods()[i];
    const std::optional<float> margin = margin_of(likelihood);
    ordered_json token = entry(answer.tokens()[i], likelihood.logprob);
    token["margin"] = margin ? ordered_json(*margin) : ordered_json(nullptr);
    ordered_json& top = token["top"] = ordered_json::array();
    for (const TokenLogprob& other : shown_of(likelihood, answer.logprobs()))
      top.push_back(entry(other.id, other.logprob));
    list.push_back(std::move(token));
  }
  return list;
}

}  // namespace

std::string on_one_line(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Answer::Answer(bool has_text, int logprobs) : logprobs_(logprobs) {
  if (has_text) text_.emplace();
  end_.finish_reason = engine::FinishReason::kCancelled;
}

void Answer::add(const engine::Update& update) {
  for (const engine::AnswerToken& token : update.tokens) {
    tokens_.push_back(token.id);
    if (text_) *text_ += token.text;
    if (token.likelihood && logprobs_ >= 0) likelihoods_.push_back(*token.likelihood);
    end_.digest = token.digest;
  }
  if (update.end) {
    end_ = *update.end;
    if (text_) *text_ += end_.text;
  }
  last_update_ = update.at;
  if (!first_update_) first_update_ = update.at;
}

std::int64_t Answer::steps() const {
  return static_cast<std::int64_t>(tokens_.size()) + (end_.stop_token ? 1 : 0);
}

double Answer::prefill_seconds() const {
  return std::chrono::duration<double>(first_update_.value_or(start_) - start_).count();
}

double Answer::decode_seconds() const {
  return first_update_ ? std::chrono::duration<double>(last_update_ - *first_update_).count() : 0.0;
}

bool AnswerWriter::write(const engine::Update& update) {
  for (const engine::AnswerToken& token : update.tokens) {
    if (has_text_)
      fmt::print("{}", token.text);
    else
      fmt::print("{}{}", is_first_ ? "" : " ", token.id);
    is_first_ = false;
  }
  if (has_text_ && update.end) fmt::print("{}", update.end->text);
  std::fflush(stdout);
  return std::ferror(stdout) == 0;
}

void AnswerWriter::finish() const {
  fmt::print("\n");
  std::fflush(stdout);
}

void GenerateOutput::print_numerics() const {
  fmt::print(stderr, "{} on {}{}\n", context.numerics(), context.description(), default_note);
}

void GenerateOutput::print_notes(const engine::Request& request) const {
  print_numerics();
  if (date) fmt::print(stderr, "the chat template sees the date {}\n", text::to_string(*date));
  if (request.stop_tokens.empty() && request.stop_strings.empty())
    fmt::print(stderr, "no token ends the answer, only its length\n");
  const SamplingParams& params = request.sampling;
  if (params.temperature > 0)
    fmt::print(stderr, "sampling: temperature {}, top-k {}, top-p {}, min-p {}, repetition penalty {}, seed {}\n",
               params.temperature, params.top_k, params.top_p, params.min_p, params.repetition_penalty, params.seed);
}

void GenerateOutput::print_end(const engine::Request& request, const Answer& answer) const {
  print_likelihoods(answer, files.text());
  if (!answer.end().digest.empty()) fmt::print("digest {}\n", answer.end().digest);
  std::fflush(stdout);
  if (answer.tokens().empty() && files.text().has_chat_template())
    fmt::print(stderr, "the model ended its answer at once; a chat model wants --chat\n");
  fmt::print(stderr, "prompt: {} in {:.3f} s; answer: {}", counted(std::ssize(request.prompt), "token"),
             answer.prefill_seconds(), counted(std::ssize(answer.tokens()), "token"));
  // The first token comes with the prefill; a rate takes at least one more.
  if (answer.steps() > 1)
    fmt::print(stderr, " at {:.1f} per second", static_cast<double>(answer.steps() - 1) / answer.decode_seconds());
  fmt::print(stderr, "\n");
}

ordered_json GenerateOutput::to_json(const engine::Request& request, const Answer& answer) const {
  ordered_json root = {{"text", answer.text() ? ordered_json(*answer.text()) : ordered_json(nullptr)},
                       {"tokens", answer.tokens()},
                       {"prompt_tokens", request.prompt},
                       {"finish_reason", engine::finish_reason_name(answer.end().finish_reason)},
                       {"numerics", context.numerics()},
                       {"device", context.description()},
                       {"sampling", cli::to_json(request.sampling)}};
  if (date) root["date"] = text::to_string(*date);
  if (answer.logprobs() >= 0) root["logprobs"] = likelihoods_json(answer, files.text());
  if (request.digest != DigestKind::kNone) {
    const std::string& digest = answer.end().digest;  // empty: interrupted before the first token
    root["digest"] = digest.empty() ? ordered_json(nullptr) : ordered_json(digest);
    root["model_digest"] = model_digest;
  }
  return root;
}

void GenerateOutput::print_json(const engine::Request& request, const Answer& answer) const {
  ordered_json root = to_json(request, answer);
  root["prefill_seconds"] = answer.prefill_seconds();
  root["decode_seconds"] = answer.decode_seconds();
  fmt::print("{}\n", to_lines(root));
}

}  // namespace reprofuse::cli
