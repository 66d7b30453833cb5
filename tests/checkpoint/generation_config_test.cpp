#include <gtest/gtest.h>

#include "checkpoint/config.hpp"
#include "support/messages.hpp"

namespace reprofuse::checkpoint {
namespace {

GenerationConfig parse(const std::string& json) {
  return parse_generation_config(json, "generation_config.json", 152064);
}

std::string error(const std::string& json) {
  return error_of([&] { parse(json); });
}

TEST(GenerationConfig, TakesWhatPublishedFilesSay) {
  const GenerationConfig qwen = parse(R"({"bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true,
      "eos_token_id": [151645, 151643], "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20,
      "transformers_version": "4.37.0"})");
  EXPECT_EQ(qwen.do_sample, true);
  EXPECT_EQ(qwen.temperature, 0.7);
  EXPECT_EQ(qwen.top_k, 20);
  EXPECT_EQ(qwen.top_p, 0.8);
  EXPECT_EQ(qwen.repetition_penalty, 1.05);
  EXPECT_EQ(qwen.bos_token, 151643);
  EXPECT_EQ(qwen.pad_token, 151643);
  EXPECT_EQ(qwen.eos_tokens, (std::vector<std::int64_t>{151645, 151643}));
  const GenerationConfig llama = parse(R"({"bos_token_id": 128000, "do_sample": true,
      "eos_token_id": [128001, 128008, 128009], "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.45.0"})");
  EXPECT_EQ(llama.top_k, std::nullopt);
  EXPECT_EQ(llama.top_p, 0.9);
  const GenerationConfig deepseek = parse(R"({"_from_model_config": true, "bos_token_id": 128000,
      "eos_token_id": 128001, "do_sample": true, "temperature": 0.6, "top_p": 0.95, "transformers_version": "4.39.3"})");
  EXPECT_EQ(deepseek.eos_tokens, std::vector<std::int64_t>{128001});
}

TEST(GenerationConfig, SaysNothingThatItsFileDoesNotSay) {
  EXPECT_EQ(parse("{}"), GenerationConfig());
  EXPECT_EQ(parse(R"({"top_k": null, "num_beams": 1, "length_penalty": 1, "max_new_tokens": null})"),
            GenerationConfig());
}

TEST(GenerationConfig, TakesLimits) {
  const GenerationConfig config = parse(R"({"max_new_tokens": 2048, "max_length": 4096, "min_p": 0.05})");
  EXPECT_EQ(config.max_new_tokens, 2048);
  EXPECT_EQ(config.max_length, 4096);
  EXPECT_EQ(config.min_p, 0.05);
}

TEST(GenerationConfig, RefusesWhatItCannotDoAndWhatMakesNoSense) {
  const std::string file = "generation_config.json: ";
  EXPECT_EQ(error(R"({"num_beams": 4})"), file + "num_beams 4 is not supported");
  EXPECT_EQ(error(R"({"no_repeat_ngram_size": 3})"), file + "no_repeat_ngram_size 3 is not supported");
  EXPECT_EQ(error(R"({"suppress_tokens": [1]})"), file + "suppress_tokens [1] is not supported");
  EXPECT_EQ(error(R"({"foo": 3})"), file + "key 'foo' with value 3 is not understood");
  EXPECT_EQ(error(R"({"temperature": -1})"), file + "temperature is -1, not a number from 0 to 1000000");
  EXPECT_EQ(error(R"({"top_p": 0})"), file + "top_p is 0, not positive");
  EXPECT_EQ(error(R"({"top_p": 1.5})"), file + "top_p is 1.5, not a number from 0 to 1");
  EXPECT_EQ(error(R"({"min_p": 2})"), file + "min_p is 2, not a number from 0 to 1");
  EXPECT_EQ(error(R"({"top_k": 2.5})"), file + "top_k is 2.5, not an integer from 0 to 1073741824");
  EXPECT_EQ(error(R"({"repetition_penalty": 0.0})"), file + "repetition_penalty is 0.0, not a number from 0.01 to 100");
  EXPECT_EQ(error(R"({"repetition_penalty": 1e3})"),
            file + "repetition_penalty is 1000.0, not a number from 0.01 to 100")
      << "what no request may ask";
  EXPECT_EQ(error(R"({"eos_token_id": 152064})"), file + "eos_token_id is 152064, not an integer from 0 to 152063");
}

}  // namespace
}  // namespace reprofuse::checkpoint
