#include "server/openai/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "numerics/sampling.hpp"
#include "server/openai/error.hpp"
#include "server/openai/json.hpp"

namespace reprofuse::server {
namespace {

// They would change the answer, and there is nothing here that does what they ask.
constexpr FixedValue kFixed[] = {{"presence_penalty", "0"},
                                 {"frequency_penalty", "0"},
                                 {"logit_bias", "{}"},
                                 {"use_beam_search", "false"},
                                 {"length_penalty", "1"},
                                 {"min_tokens", "0"},
                                 {"spaces_between_special_tokens", "true"},
                                 {"truncate_prompt_tokens", "null"},
                                 {"allowed_token_ids", "null"},
                                 {"bad_words", "[]"},
                                 {"logits_processors", "null"},
                                 {"structured_outputs", "null"},
                                 {"guided_json", "null"},
                                 {"guided_regex", "null"},
                                 {"guided_choice", "null"},
                                 {"guided_grammar", "null"},
                                 {"kv_transfer_params", "null"},
                                 {"response_format", R"({"type":"text"})"}};

// What the folder's generation_config.json asks for, but for what the client says.
SamplingParams read_sampling(Fields& fields, const ServedFacts& facts) {
  SamplingParams params = facts.files->suggested_sampling();
  params.temperature = fields.number("temperature", 0, FLT_MAX).value_or(params.temperature);
  params.top_p = fields.number("top_p", 0, 1).value_or(params.top_p);
  params.min_p = fields.number("min_p", 0, 1).value_or(params.min_p);
  params.repetition_penalty = fields.number("repetition_penalty", kMinRepetitionPenalty, kMaxRepetitionPenalty)
                                  .value_or(params.repetition_penalty);
  if (const auto top_k = fields.integer("top_k", -1, INT32_MAX)) params.top_k = std::max(0, static_cast<int>(*top_k));
  return params;
}

// Any 64 bits: a negative seed is the unsigned one with the same bits.
std::uint64_t read_seed(Fields& fields) {
  const Json* seed = fields.find("seed");
  if (seed == nullptr) return 0;
  if (!seed->is_number_integer()) fields.fail_value("seed", *seed, "an integer of 64 bits");
  return seed->get<std::uint64_t>();
}

int read_choices(Fields& fields) {
  const auto choices = fields.integer("n", 1, engine::kMaxChoices).value_or(1);
  const auto best_of = fields.integer("best_of", 1, engine::kMaxChoices).value_or(choices);
  if (best_of != choices)
    throw bad_request(fmt::format("best_of is {}; only the value of n, which is {}, is supported", best_of, choices),
                      "best_of", "unsupported_value");
  return static_cast<int>(choices);
}

// A request that goes first delays others, so clients may ask for it only where the operator allows it.
int read_priority(Fields& fields, const CallRules& rules) {
  const auto priority = fields.integer("priority", INT32_MIN, INT32_MAX).value_or(0);
  if (priority != 0 && !rules.allow_priority)
    throw bad_request(
        fmt::format("priority is {}; this server was started without --allow-priority and takes only 0", priority),
        "priority", "unsupported_value");
  return static_cast<int>(priority);
}

// Requests share a prefix in the cache only where key and salt are the same: how soon an answer comes tells whether
// its prompt was there.
std::string read_cache_salt(Fields& fields, const Caller& caller) {
  constexpr std::size_t kMaxBytes = 256;
  const std::string given = fields.string("cache_salt").value_or("");
  if (given.size() > kMaxBytes)
    throw bad_request(fmt::format("cache_salt has {} bytes; {} are allowed", given.size(), kMaxBytes), "cache_salt",
                      "unsupported_value");
  return fmt::format("{} {}", caller.cache_salt, given);
}

// One string or a list of them.
std::vector<std::string> read_stop_strings(Fields& fields) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return {};
  if (stop->is_array() && stop->size() > kMaxStopStrings)
    fields.fail_value("stop", *stop, fmt::format("at most {} strings", kMaxStopStrings));
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  std::vector<std::string> strings;
  for (const Json& entry : list) {
    const auto* text = entry.get_ptr<const std::string*>();
    if (text == nullptr || text->empty() || text->size() > kMaxStopBytes)
      fields.fail_value("stop", *stop, fmt::format("a string of 1 to {} bytes, or a list of them", kMaxStopBytes));
    strings.push_back(*text);
  }
  return strings;
}

void read_stream_options(Fields& fields, Call& call) {
  call.stream = fields.boolean("stream").value_or(false);
  std::optional<Fields> options = fields.object("stream_options");
  if (!options) return;
  if (!call.stream) throw bad_request("stream_options go with stream", "stream_options", "invalid_value");
  call.include_usage = options->boolean("include_usage").value_or(false);
  call.continuous_usage = options->boolean("continuous_usage_stats").value_or(false);
  options->boolean("include_obfuscation");  // adds nothing that a client reads
  options->refuse_the_rest();
}

void read_ends(Fields& fields, const ServedFacts& facts, Call& call, engine::Request& request) {
  const std::int64_t vocabulary = facts.files->checkpoint().config().vocab_size;
  call.stop_token_ids = fields.ids("stop_token_ids", vocabulary, kMaxStopTokens);
  request.stop_tokens = call.stop_token_ids;
  if (!fields.boolean("ignore_eos").value_or(false)) {
    const std::vector<std::int32_t>& own = facts.files->stop_tokens();
    request.stop_tokens.insert(request.stop_tokens.end(), own.begin(), own.end());
  }
  request.stop_strings = read_stop_strings(fields);
  request.keep_stop_string = fields.boolean("include_stop_str_in_output").value_or(false);
}

// True is the kind that costs least; a string names one.
DigestKind read_digest(Fields& fields) {
  const Json* value = fields.find("digest");
  if (value == nullptr) return DigestKind::kNone;
  if (value->is_boolean()) return value->get<bool>() ? DigestKind::kTree1 : DigestKind::kNone;
  for (const DigestKind kind : {DigestKind::kTree1, DigestKind::kChain1})
    if (value->is_string() && value->get<std::string_view>() == digest_kind_name(kind)) return kind;
  fields.fail_value("digest", *value, "true, false, \"tree-1\" or \"chain-1\"");
}

// True, or an object that says what it is to hold.
std::optional<receipt::ReceiptOptions> read_receipt(Fields& fields, const ServedFacts& facts) {
  const Json* value = fields.find("receipt");
  if (value == nullptr || *value == false) return std::nullopt;
  receipt::ReceiptOptions options;
  if (value->is_object()) {
    Fields parts = *fields.object("receipt");
    options.hide_prompt = parts.boolean("hide_prompt").value_or(false);
    options.roots = parts.boolean("roots").value_or(false);
    options.nonce = parts.string("nonce");
    parts.refuse_the_rest();
    if (options.nonce && options.nonce->size() > receipt::kMaxNonceBytes)
      throw bad_request(
          fmt::format("receipt.nonce has {} bytes; {} are allowed", options.nonce->size(), receipt::kMaxNonceBytes),
          "receipt.nonce", "invalid_value");
  } else if (*value != true) {
    fields.fail_value("receipt", *value, "true, false or an object with hide_prompt, roots and nonce");
  }
  if (facts.issuer == nullptr)
    throw bad_request("this server signs no receipts: it was started without REPROFUSE_KEY, or computes by a baseline",
                      "receipt", "unsupported_value");
  return options;
}

// How errors of texts that are too long begin.
std::string longest_context(const ServedFacts& facts) {
  return fmt::format("this model's maximum context length is {} tokens; ", facts.max_positions);
}

}  // namespace

engine::Request read_common_fields(Fields& fields, const ServedFacts& facts, const CallRules& rules,
                                   const Caller& caller, Call& call) {
  if (const auto model = fields.string("model")) check_model_name(*model, facts);
  engine::Request request;
  request.sampling = read_sampling(fields, facts);
  request.sampling.seed = read_seed(fields);
  request.choices = read_choices(fields);
  request.priority = read_priority(fields, rules);
  request.client = caller.client;
  request.cache_salt = read_cache_salt(fields, caller);
  read_ends(fields, facts, call, request);
  request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  request.digest = read_digest(fields);
  call.receipt = read_receipt(fields, facts);
  if (call.receipt && request.digest == DigestKind::kChain1)
    throw bad_request("a receipt goes with a digest of the kind tree-1", "digest", "invalid_value");
  if (call.receipt) request.digest = DigestKind::kTree1;
  read_stream_options(fields, call);
  call.report_cached_tokens = rules.report_cached_tokens;
  call.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  call.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  call.prompt_logprobs = static_cast<int>(fields.integer("prompt_logprobs", 0, kMaxLogprobs).value_or(-1));
  if (call.prompt_logprobs >= 0 && call.stream)
    throw bad_request("prompt_logprobs do not go with stream", "prompt_logprobs", "invalid_value");
  request.prompt_logprobs = call.prompt_logprobs;
  fields.ignore(kHarmlessFields);
  fields.allow_only(kFixed);
  return request;
}

TextRules::TextRules(Fields& fields, bool add_special_tokens, const RequestBody& body, const ServedFacts& facts)
    : special_tokens(facts.special_tokens) {
  options.add_special_tokens = fields.boolean("add_special_tokens").value_or(add_special_tokens);
  options.max_tokens = static_cast<std::size_t>(facts.max_positions);
  if (body.guard != nullptr) options.poll = [guard = body.guard] { guard->claim_memory(0); };
  if (const auto mode = fields.string("special_tokens_in_content")) {
    const auto known = engine::special_tokens_from(*mode);
    if (!known) fields.fail_value("special_tokens_in_content", *mode, "'as-tokens' or 'plain'");
    special_tokens = *known;
  }
}

std::vector<std::int32_t> encoded(const std::function<std::optional<std::vector<std::int32_t>>()>& encode,
                                  const ServedFacts& facts, const std::string& param) {
  auto tokens = reading(param, encode);
  if (!tokens)
    throw bad_request(fmt::format("{}{} has more tokens", longest_context(facts), param), param,
                      "context_length_exceeded");
  return *std::move(tokens);
}

std::vector<std::int32_t> encode_prompt(std::string_view text, const TextRules& rules, const ServedFacts& facts,
                                        const std::string& param) {
  return encoded([&] { return facts.files->text().encode_text(text, rules.special_tokens, rules.options); }, facts,
                 param);
}

void check_prompt_logprobs(const Call& call, std::int64_t per_token, std::int64_t times, const std::string& param) {
  std::int64_t tokens = 0;
  for (const engine::Request& request : call.requests) tokens += static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t all = tokens * per_token * times;
  if (all <= kMaxPromptLogprobs) return;
  throw bad_request(
      fmt::format("{} tokens of prompts with {} log-probabilities each, for {} choices, are {} log-probabilities, more "
                  "than the {} that a reply may have",
                  tokens, per_token, times, all, kMaxPromptLogprobs),
      param, "invalid_value");
}

engine::Request request_for(std::vector<std::int32_t> prompt, const engine::Request& request,
                            const AnswerLength& length, const ServedFacts& facts, const std::string& param) {
  if (prompt.empty()) throw bad_request(fmt::format("{} has no tokens", param), param, "invalid_value");
  const auto taken = static_cast<std::int64_t>(prompt.size());
  const std::int64_t room = facts.max_positions - taken;
  const std::int64_t wanted = length.given.value_or(length.preferred);
  const std::string sizes = fmt::format("{}{} has {} tokens", longest_context(facts), param, taken);
  if (room < std::min<std::int64_t>(wanted, 1))
    throw bad_request(sizes + (wanted > 0 ? ", which leaves no room for an answer" : ""), param,
                      "context_length_exceeded");
  if (length.given && wanted > room)
    throw bad_request(fmt::format("{} and {} is {}: at most {} fit", sizes, length.field, wanted, room), length.field,
                      "context_length_exceeded");
  engine::Request complete = request;
  complete.prompt = std::move(prompt);
  complete.max_tokens = std::min(wanted, room);
  return complete;
}

namespace {

std::string card_of(const ServedFacts& facts) {
  return json_object([&](JsonWriter& json) {
    json.field("id", facts.id).field("object", "model").field("created", facts.created);
    json.field("owned_by", "reprofuse").field("root", facts.id).field("parent", nullptr);
    json.field("max_model_len", facts.max_positions).field("system_fingerprint", facts.fingerprint);
    json.field("receipts", facts.issuer != nullptr);
    json.field("receipts_key", facts.issuer == nullptr ? std::nullopt : std::optional(facts.issuer->public_key().id()));
  });
}

}  // namespace

void check_model_name(std::string_view name, const ServedFacts& facts) {
  if (name == facts.id) return;
  throw ApiError(404, "invalid_request_error",
                 fmt::format("the model {} does not exist; this server has '{}'", shown(name), facts.id), "model",
                 "model_not_found");
}

std::string model_list(const ServedFacts& facts) {
  return json_object([&](JsonWriter& json) {
    json.field("object", "list");
    json.key("data").array([&] { json.raw(card_of(facts)); });
  });
}

std::string model_card(std::string_view name, const ServedFacts& facts) {
  check_model_name(name, facts);
  return card_of(facts);
}

}  // namespace reprofuse::server
