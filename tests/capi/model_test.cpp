// Checkpoints, tokenizers and chat templates through the public interfaces.
#include <unistd.h>

#include <cfenv>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "capi/support.hpp"

namespace reprofuse::capi {
namespace {

TEST(CheckpointApi, TellsWhatTheFolderHolds) {
  const Checkpoint& checkpoint = small_model().checkpoint();
  const ModelFacts& facts = checkpoint.facts();
  EXPECT_EQ(facts.architecture, "LlamaForCausalLM");
  EXPECT_EQ(small_model().max_positions(), facts.max_positions);
  EXPECT_GT(facts.parameters, 1'000'000);
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const Tensor tensor = checkpoint.tensor(i);
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    EXPECT_EQ(tensor.bytes, static_cast<std::size_t>(count) * dtype_bytes(tensor.dtype)) << tensor.name;
    elements += count;
  }
  EXPECT_EQ(elements, facts.parameters);
  EXPECT_EQ(thrown(ErrorCode::kInvalidArgument, [&] { (void)checkpoint.tensor("wq"); }).find("wq") == std::string::npos,
            false);
  (void)thrown(ErrorCode::kInvalidArgument, [&] { (void)checkpoint.tensor(checkpoint.tensor_count()); });
}

TEST(CheckpointApi, TheCAbiTellsTheSame) {
  const CModel loaded;
  const Checkpoint& expected = small_model().checkpoint();
  reprofuse_facts facts;
  ASSERT_EQ(reprofuse_checkpoint_facts(loaded.checkpoint, &facts, sizeof facts), REPROFUSE_OK);
  EXPECT_EQ(facts.architecture, expected.facts().architecture);
  EXPECT_EQ(facts.vocab_size, expected.facts().vocab_size);
  EXPECT_EQ(facts.parameters, expected.facts().parameters);
  EXPECT_EQ(facts.has_tokenizer, REPROFUSE_HAVE_TEXT);
  ASSERT_EQ(facts.stop_token_count, expected.stop_tokens().size());
  EXPECT_EQ(facts.stop_tokens[0], expected.stop_tokens()[0]);
  EXPECT_EQ(facts.suggested_sampling.top_p, 1);
  size_t count = 0;
  ASSERT_EQ(reprofuse_checkpoint_tensor_count(loaded.checkpoint, &count), REPROFUSE_OK);
  ASSERT_EQ(count, expected.tensor_count());
  reprofuse_tensor tensor;
  ASSERT_EQ(reprofuse_checkpoint_tensor(loaded.checkpoint, 1, &tensor, sizeof tensor), REPROFUSE_OK);
  EXPECT_EQ(tensor.name, expected.tensor(std::size_t{1}).name);
  EXPECT_EQ(tensor.bytes, expected.tensor(std::size_t{1}).bytes);
  EXPECT_EQ(tensor.shape[0], expected.tensor(std::size_t{1}).shape[0]);
  EXPECT_EQ(reprofuse_checkpoint_tensor(loaded.checkpoint, count, &tensor, sizeof tensor), REPROFUSE_INVALID_ARGUMENT);
  std::vector<std::byte> elements(tensor.bytes), same(tensor.bytes);
  ASSERT_EQ(reprofuse_checkpoint_read_tensor(loaded.checkpoint, 1, elements.data(), elements.size()), REPROFUSE_OK);
  expected.read_tensor(tensor.name, same);
  EXPECT_EQ(elements, same);
  EXPECT_NE(elements, std::vector<std::byte>(tensor.bytes));
  EXPECT_EQ(reprofuse_checkpoint_read_tensor(loaded.checkpoint, 1, elements.data(), 1), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_checkpoint_read_tensor(loaded.checkpoint, 1, nullptr, 1), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_checkpoint_read_tensor(loaded.checkpoint, count, elements.data(), 1), REPROFUSE_INVALID_ARGUMENT);
  char digest[65];
  std::int64_t done = 0;
  const auto progress = [](std::int64_t now, std::int64_t, void* user) { *static_cast<std::int64_t*>(user) = now; };
  ASSERT_EQ(reprofuse_checkpoint_digest(loaded.checkpoint, progress, &done, digest), REPROFUSE_OK);
  EXPECT_EQ(std::string(digest), expected.digest());
  EXPECT_EQ(std::string(digest).size(), 64U);
  EXPECT_GT(done, 1'000'000);
}

TEST(CheckpointApi, TheCAbiHasTheSameRotaryTableAndTextSide) {
  const CModel loaded;
  const Checkpoint& expected = small_model().checkpoint();
  const std::int64_t dim = expected.facts().head_dim;
  const RotaryTable table = rotary_table(expected.rotary(), dim, 9);
  std::vector<float> cos(table.cos.size()), sin(table.sin.size());
  ASSERT_EQ(reprofuse_checkpoint_rotary_table(loaded.checkpoint, 9, cos.data(), sin.data()), REPROFUSE_OK);
  EXPECT_EQ(cos, table.cos);
  EXPECT_EQ(sin, table.sin);
#if REPROFUSE_HAVE_TEXT
  std::int32_t* tokens = nullptr;
  size_t count = 0;
  ASSERT_EQ(reprofuse_checkpoint_encode_prompt(loaded.checkpoint, "2 + 3", &tokens, &count), REPROFUSE_OK);
  EXPECT_EQ(std::vector<std::int32_t>(tokens, tokens + count), expected.encode_prompt("2 + 3"));
  reprofuse_free(tokens);
  constexpr const char* kMessages = R"([{"role": "user", "content": "2 + 3"}])";
  reprofuse_chat_template* chat = nullptr;
  char* text = nullptr;
  ASSERT_EQ(reprofuse_checkpoint_chat_template(loaded.checkpoint, &chat), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_chat_template_render(chat, kMessages, nullptr, &text, &count), REPROFUSE_OK);
  EXPECT_EQ(std::string(text, count), expected.chat_template().render({{"user", "2 + 3"}}));
  EXPECT_NE(std::string(text, count).find("2 + 3"), std::string::npos);
  reprofuse_free(text);
  reprofuse_chat_template_destroy(chat);
#endif
}

// Nothing of a file is mapped, so nothing that happens to one ends the process.
TEST(CheckpointApi, AFileThatIsCutOffAfterItWasOpenedIsAnError) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("reprofuse_cut_" + std::to_string(getpid()));
  fs::create_directories(folder);
  for (const auto& file : fs::directory_iterator(REPROFUSE_BUNDLED_MODEL))
    fs::copy(file, folder / file.path().filename());
  const Checkpoint checkpoint = Checkpoint::open(folder.string());
  const Tensor tensor = checkpoint.tensor(std::size_t{1});
  std::vector<std::byte> memory(tensor.bytes);
  checkpoint.read_tensor(tensor.name, memory);
  fs::resize_file(folder / "model.safetensors", 5000);
  const std::string error = thrown(ErrorCode::kInvalidArgument, [&] { checkpoint.read_tensor(tensor.name, memory); });
  EXPECT_NE(error.find("model.safetensors: "), error.npos) << error;
  EXPECT_EQ(checkpoint.tensor(std::size_t{1}).bytes, memory.size()) << "what the header said is known";
  fs::remove_all(folder);
}

// A folder whose decimals are no binary32 numbers.
std::filesystem::path folder_that_samples() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("reprofuse_rounding_" + std::to_string(getpid()));
  fs::create_directories(folder);
  for (const auto& file : fs::directory_iterator(REPROFUSE_BUNDLED_MODEL))
    if (file.path().filename() != "generation_config.json")
      fs::create_symlink(file.path(), folder / file.path().filename());
  std::ofstream(folder / "generation_config.json")
      << R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.1})";
  return folder;
}

// What a caller can see that is rounded: a model's digest, its suggested sampling, numbers in a chat.
std::string rounded_results(const std::string& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const SamplingParams sampling = checkpoint.suggested_sampling();
  const ChatTemplate chat("{{ x }} {{ x / 3 }} {{ messages[0].n }}", "numbers");
  ChatOptions options;
  options.variables_json = R"({"x": 0.1})";
  std::ostringstream results;
  results << std::hexfloat << checkpoint.digest() << ' ' << sampling.temperature << ' ' << sampling.top_p << ' '
          << sampling.repetition_penalty << ' ' << chat.render_json(R"([{"role": "user", "n": 0.7}])", options);
  return results.str();
}

TEST(CheckpointApi, NothingFollowsTheRoundingModeOfTheCaller) {
  const std::filesystem::path folder = folder_that_samples();
  const std::string expected = rounded_results(folder);
  const volatile double decimal = 0.6;
  const auto nearest = static_cast<float>(decimal);
  bool would_show = false;  // the control: a conversion outside the library does follow it
  for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const std::string results = rounded_results(folder);
    would_show = would_show || static_cast<float>(decimal) != nearest;
    EXPECT_EQ(std::fegetround(), mode) << "the caller's mode was not given back";
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(results, expected) << mode;
  }
  EXPECT_TRUE(would_show);
  std::filesystem::remove_all(folder);
}

TEST(CheckpointApi, FoldersWithoutAModelAreNamed) {
  const std::string folder = std::filesystem::temp_directory_path() / "reprofuse_no_such_model";
  EXPECT_NE(thrown(ErrorCode::kInvalidArgument, [&] { (void)Checkpoint::open(folder); }).find(folder),
            std::string::npos);
  reprofuse_checkpoint* checkpoint = nullptr;
  EXPECT_NE(error_text(reprofuse_checkpoint_open(folder.c_str(), &checkpoint), REPROFUSE_INVALID_ARGUMENT).find(folder),
            std::string::npos);
  EXPECT_EQ(reprofuse_checkpoint_open(nullptr, &checkpoint), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(checkpoint, nullptr);
  reprofuse_checkpoint_destroy(nullptr);
}

TEST(ModelApi, LoadingTellsItsProgressAndPassesOnWhatIsThrown) {
  const Checkpoint& checkpoint = small_model().checkpoint();
  std::int64_t last = 0, all = 0;
  const Model model =
      Model::load(Context::cpu(), checkpoint, {.max_positions = 64, .progress = [&](auto done, auto total) {
                                                 EXPECT_GE(done, last);
                                                 last = done;
                                                 all = total;
                                               }});
  EXPECT_EQ(last, all);
  EXPECT_GT(all, 0);
  EXPECT_EQ(model.max_positions(), 64);
  struct Enough {};
  EXPECT_THROW(Model::load(Context::cpu(), checkpoint, {.progress = [](auto, auto) { throw Enough(); }}), Enough);

  // Even out of a callback nothing gets through the C ABI.
  const CModel loaded;
  reprofuse_load_options options;
  ASSERT_EQ(reprofuse_load_options_init(&options, sizeof options), REPROFUSE_OK);
  options.progress = [](std::int64_t, std::int64_t, void*) { throw 7; };
  reprofuse_model* refused = nullptr;
  EXPECT_EQ(reprofuse_model_load(loaded.context, loaded.checkpoint, &options, &refused), REPROFUSE_INTERNAL);
  options.progress = nullptr;
  options.max_positions = 64;
  reprofuse_model* shorter = nullptr;
  ASSERT_EQ(reprofuse_model_load(loaded.context, loaded.checkpoint, &options, &shorter), REPROFUSE_OK);
  std::int64_t positions = 0;
  ASSERT_EQ(reprofuse_model_max_positions(shorter, &positions), REPROFUSE_OK);
  EXPECT_EQ(positions, 64);
  ASSERT_EQ(reprofuse_model_max_positions(loaded.model, &positions), REPROFUSE_OK);
  EXPECT_EQ(positions, checkpoint.facts().max_positions);
  EXPECT_EQ(reprofuse_model_max_positions(nullptr, &positions), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_model_max_positions(shorter, nullptr), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_model_destroy(shorter);
  options.max_positions = -1;
  EXPECT_EQ(reprofuse_model_load(loaded.context, loaded.checkpoint, &options, &refused), REPROFUSE_INVALID_ARGUMENT);
  options.struct_size = 0;
  EXPECT_EQ(reprofuse_model_load(loaded.context, loaded.checkpoint, &options, &refused), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_model_load(nullptr, loaded.checkpoint, nullptr, &refused), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_model_load(loaded.context, nullptr, nullptr, &refused), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(refused, nullptr);
}

TEST(ChatTemplateApi, RendersMessagesWithADateThatIsGiven) {
  const std::string source =
      "{{ bos_token }}{{ strftime_now('%d %b %Y') }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
      "{% if tools %}{{ tools | length }}{% endif %}{% if add_generation_prompt %}>{% endif %}";
  const ChatTemplate chat(source, "test template", R"({"bos_token": "<s>"})");
  EXPECT_EQ(chat.render({{"user", "Hi \"you\""}}), "<s>26 Jul 2024[user] Hi \"you\">");
  EXPECT_EQ(chat.render({}, {.add_generation_prompt = false, .date = "2026-11-16", .tools_json = "[{}, {}]"}),
            "<s>16 Nov 20262");
  EXPECT_NE(thrown(ErrorCode::kInvalidArgument, [&] { (void)chat.render_json("[{]"); }).find("JSON"),
            std::string::npos);
  (void)thrown(ErrorCode::kInvalidArgument, [&] { (void)chat.render({}, {.date = "tomorrow"}); });
  (void)thrown(ErrorCode::kInvalidArgument, [&] { ChatTemplate("{% if %}", "broken"); });

  reprofuse_chat_template* c_chat = nullptr;
  ASSERT_EQ(reprofuse_chat_template_create(source.c_str(), nullptr, R"({"bos_token": "<s>"})", &c_chat), REPROFUSE_OK);
  reprofuse_chat_options options;
  ASSERT_EQ(reprofuse_chat_options_init(&options, sizeof options), REPROFUSE_OK);
  options.date = "2025-01-02";
  char* text = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(reprofuse_chat_template_render(c_chat, R"([{"role": "user", "content": "Hi"}])", &options, &text, &bytes),
            REPROFUSE_OK)
      << reprofuse_last_error();
  EXPECT_EQ(std::string(text, bytes), "<s>02 Jan 2025[user] Hi>");
  reprofuse_free(text);
  EXPECT_EQ(reprofuse_chat_template_render(c_chat, "nonsense", nullptr, &text, &bytes), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_chat_template_render(c_chat, nullptr, nullptr, &text, &bytes), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_chat_template_render(c_chat, "[]", nullptr, nullptr, &bytes), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_chat_template_render(nullptr, "[]", nullptr, &text, &bytes), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_chat_template_destroy(c_chat);
}

#if REPROFUSE_HAVE_TEXT
TEST(TokenizerApi, TextGoesInAndOut) {
  const CModel loaded;
  const std::string question = golden()["question"];
  EXPECT_EQ(small_model().checkpoint().encode_chat({{"user", question}}), golden_prompt());
  const std::string messages = nlohmann::json::array({{{"role", "user"}, {"content", question}}}).dump();
  std::int32_t* tokens = nullptr;
  size_t count = 0;
  ASSERT_EQ(reprofuse_checkpoint_encode_chat(loaded.checkpoint, messages.c_str(), nullptr, &tokens, &count),
            REPROFUSE_OK)
      << reprofuse_last_error();
  EXPECT_EQ(std::vector<std::int32_t>(tokens, tokens + count), golden_prompt());
  reprofuse_free(tokens);

  reprofuse_tokenizer* tokenizer = nullptr;
  ASSERT_EQ(reprofuse_checkpoint_tokenizer(loaded.checkpoint, &tokenizer), REPROFUSE_OK);
  const auto answer = golden()["tokens"].get<std::vector<std::int32_t>>();
  char* text = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(reprofuse_tokenizer_decode(tokenizer, answer.data(), answer.size(), 1, &text, &bytes), REPROFUSE_OK);
  EXPECT_EQ(std::string(text), golden_text());
  ASSERT_EQ(reprofuse_tokenizer_encode(tokenizer, text, bytes, 0, &tokens, &count), REPROFUSE_OK);
  EXPECT_EQ(std::vector<std::int32_t>(tokens, tokens + count), answer);
  reprofuse_free(tokens);
  reprofuse_free(text);

  reprofuse_detokenizer* stream = nullptr;
  ASSERT_EQ(reprofuse_detokenizer_create(tokenizer, 1, &stream), REPROFUSE_OK);
  std::string joined;
  const char* piece = nullptr;
  for (const std::int32_t token : answer) {
    ASSERT_EQ(reprofuse_detokenizer_push(stream, token, &piece, &bytes), REPROFUSE_OK);
    joined += std::string(piece, bytes);
  }
  ASSERT_EQ(reprofuse_detokenizer_flush(stream, &piece, &bytes), REPROFUSE_OK);
  EXPECT_EQ(joined + piece, golden_text());
  reprofuse_detokenizer_destroy(stream);

  const std::int32_t stop = small_model().checkpoint().stop_tokens()[0];
  int special = 0;
  ASSERT_EQ(reprofuse_tokenizer_token_bytes(tokenizer, stop, &piece, &bytes, &special), REPROFUSE_OK);
  EXPECT_EQ(special, 1);
  std::int32_t id = 0;
  ASSERT_EQ(reprofuse_tokenizer_token_id(tokenizer, std::string(piece, bytes).c_str(), &id), REPROFUSE_OK);
  EXPECT_EQ(id, stop);
  ASSERT_EQ(reprofuse_tokenizer_token_id(tokenizer, "<|no such token|>", &id), REPROFUSE_OK);
  EXPECT_EQ(id, -1);
  std::int64_t size = 0;
  ASSERT_EQ(reprofuse_tokenizer_vocab_size(tokenizer, &size), REPROFUSE_OK);
  EXPECT_GT(size, stop);
  EXPECT_NE(
      error_text(reprofuse_tokenizer_encode(tokenizer, "\xff", 1, 0, &tokens, &count), REPROFUSE_INVALID_ARGUMENT), "");
  const std::int32_t wrong = 1 << 20;
  EXPECT_EQ(reprofuse_tokenizer_decode(tokenizer, &wrong, 1, 0, &text, &bytes), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_tokenizer_encode(nullptr, "a", 1, 0, &tokens, &count), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_tokenizer_destroy(tokenizer);
  EXPECT_EQ(reprofuse_tokenizer_load("/no/such/tokenizer.json", &tokenizer), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(tokenizer, nullptr);
}

TEST(TokenizerApi, TheCAbiEncodesWithinLimitsAndTakesPartsAsPlain) {
  const CModel loaded;
  reprofuse_tokenizer* tokenizer = nullptr;
  ASSERT_EQ(reprofuse_checkpoint_tokenizer(loaded.checkpoint, &tokenizer), REPROFUSE_OK);
  const Tokenizer same = small_model().checkpoint().tokenizer();
  const std::string turn = same.token_bytes(small_model().checkpoint().stop_tokens()[0]);
  const std::string text = turn + " 12 + " + turn + "30";
  reprofuse_encode_options options;
  ASSERT_EQ(reprofuse_encode_options_init(&options, sizeof options), REPROFUSE_OK);
  const auto encoded = [&]() -> std::optional<std::vector<std::int32_t>> {
    std::int32_t* tokens = nullptr;
    size_t count = 77;
    EXPECT_EQ(reprofuse_tokenizer_encode_within(tokenizer, text.data(), text.size(), &options, &tokens, &count),
              REPROFUSE_OK)
        << reprofuse_last_error();
    if (tokens == nullptr) {
      EXPECT_EQ(count, 0U);
      return std::nullopt;
    }
    const std::vector<std::int32_t> all(tokens, tokens + count);
    reprofuse_free(tokens);
    return all;
  };
  const auto all = same.encode(text, false);
  EXPECT_EQ(encoded(), all);
  options.max_tokens = all.size();
  EXPECT_EQ(encoded(), all);
  options.max_tokens = all.size() - 1;
  EXPECT_EQ(encoded(), std::nullopt);
  options.max_tokens = SIZE_MAX;
  options.add_special_tokens = 1;
  EXPECT_EQ(encoded(), same.encode(text, true));
  options.add_special_tokens = 0;

  reprofuse_text_span* spans = nullptr;
  size_t count = 0;
  ASSERT_EQ(reprofuse_tokenizer_added_tokens_in(tokenizer, text.data(), text.size(), &spans, &count), REPROFUSE_OK);
  ASSERT_EQ(count, 2U);
  EXPECT_EQ(spans[1].begin, text.rfind(turn));
  EXPECT_EQ(spans[1].end, text.rfind(turn) + turn.size());
  options.plain = &spans[1];
  options.plain_count = 1;
  const std::vector<TextSpan> plain = {{spans[1].begin, spans[1].end}};
  EXPECT_EQ(encoded(), same.encode_within(text, {.plain = plain}));
  EXPECT_NE(encoded(), all) << "the second turn is forged";
  options.plain = spans;
  options.plain_count = 2;
  std::swap(spans[0], spans[1]);
  std::int32_t* tokens = nullptr;
  const auto refused = [&] {
    return error_text(reprofuse_tokenizer_encode_within(tokenizer, text.data(), text.size(), &options, &tokens, &count),
                      REPROFUSE_INVALID_ARGUMENT);
  };
  EXPECT_NE(refused().find("no plain part"), std::string::npos) << "they do not ascend";
  spans[0].end = text.size() + 1;
  options.plain_count = 1;
  EXPECT_NE(refused().find("no plain part"), std::string::npos) << "it ends behind the text";
  EXPECT_EQ(tokens, nullptr);
  reprofuse_free(spans);

  options.plain_count = 0;
  int polls = 0;
  options.user = &polls;
  options.poll = [](void* user) { return ++*static_cast<int*>(user) == 2 ? 1 : 0; };
  std::string words;
  for (int i = 0; i < 100000; ++i) words += "12 ";
  ASSERT_EQ(reprofuse_tokenizer_encode_within(tokenizer, words.data(), words.size(), &options, &tokens, &count),
            REPROFUSE_OK);
  EXPECT_EQ(tokens, nullptr);
  EXPECT_EQ(polls, 2) << "the second ends it";
  EXPECT_EQ(reprofuse_tokenizer_encode_within(nullptr, "a", 1, nullptr, &tokens, &count), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_tokenizer_encode_within(tokenizer, "a", 1, nullptr, nullptr, &count), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_tokenizer_added_tokens_in(tokenizer, "a", 1, nullptr, &count), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_tokenizer_added_tokens_in(tokenizer, nullptr, 1, &spans, &count), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_tokenizer_destroy(tokenizer);
}
#else
TEST(TokenizerApi, ABuildWithoutOneSaysSo) {
  (void)thrown(ErrorCode::kUnsupported, [] { (void)small_model().checkpoint().tokenizer(); });
}
#endif

}  // namespace
}  // namespace reprofuse::capi
