#include "checkpoint/checkpoint.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.hpp"
#include "published_configs.hpp"
#include "study/seeded/models.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::checkpoint {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  void write(const ModelConfig& config, DType dtype = DType::kBF16, int shards = 1) {
    study::RandomCheckpoint random;
    random.config = config;
    random.dtype = dtype;
    random.shards = shards;
    study::write_random_checkpoint(folder_.path(), random, pool_);
  }

  // Rewrites the single weights file with tensors changed, added or (by an empty list) removed.
  void rewrite(const std::function<std::vector<TensorToWrite>(TensorToWrite)>& change,
               const std::vector<TensorToWrite>& added = {}) {
    std::vector<TensorToWrite> tensors = added;
    {
      const Safetensors file(path("model.safetensors"), "");
      for (const TensorEntry& entry : file.header().tensors) {
        const TensorView view = file.read(entry);
        const std::vector<std::byte> bytes(view.bytes.begin(), view.bytes.end());
        for (TensorToWrite& changed : change({view.name, view.dtype, view.shape, [bytes] { return bytes; }}))
          tensors.push_back(std::move(changed));
      }
    }
    write_safetensors(path("model.safetensors"), tensors);
  }

  std::string path(std::string_view file) const { return folder_.file(std::string(file)); }
  std::string open_error() const {
    return error_of([&] { Checkpoint::open(folder_.path()); });
  }

  static std::vector<TensorToWrite> keep(TensorToWrite tensor) { return {std::move(tensor)}; }
  static TensorToWrite zeros(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    std::size_t bytes = dtype_bytes(dtype);
    for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    return {name, dtype, std::move(shape), [bytes] { return std::vector<std::byte>(bytes); }};
  }

  TemporaryFolder folder_;
  ThreadPool pool_{2};
  const ModelConfig llama_ = study::small_config(Architecture::kLlama);
};

TEST_F(CheckpointTest, OpensWhatWasWrittenInEveryFamilyDtypeAndSharding) {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3, Architecture::kMistral})
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
      for (const int shards : {1, 3}) {
        std::filesystem::remove_all(folder_.path());
        ModelConfig config = study::small_config(architecture);
        config.tied_embeddings = shards == 3;
        write(config, dtype, shards);
        const Checkpoint checkpoint = Checkpoint::open(folder_.path());
        config.declared_dtype = dtype;
        EXPECT_EQ(checkpoint.config(), config);
        EXPECT_EQ(checkpoint.tensor_bytes(), parameter_count(config) * static_cast<std::int64_t>(dtype_bytes(dtype)));
        for (const ExpectedTensor& expected : checkpoint.tensors()) {
          const TensorView view = checkpoint.read_tensor(expected.name);
          EXPECT_EQ(view.dtype, dtype);
          EXPECT_EQ(view.shape, expected.shape);
          std::vector<std::byte> bytes(view.bytes.size());
          std::memcpy(bytes.data(), HostTensor(view).data(), bytes.size());
          EXPECT_EQ(bytes, study::random_tensor(expected, dtype, 1, pool_)) << expected.name;
        }
      }
}

// Were it mapped, touching what is gone would end the process.
TEST_F(CheckpointTest, AFileThatIsCutOffAfterItWasOpenedIsAnErrorThatSaysSo) {
  write(llama_);
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  const TensorView before = checkpoint.read_tensor(kEmbeddingName);
  const std::vector<std::byte> bytes(before.bytes.begin(), before.bytes.end());
  std::filesystem::resize_file(folder_.file("model.safetensors"), 5000);
  for (const ExpectedTensor& expected : checkpoint.tensors()) {
    const std::string error = error_of([&] { checkpoint.read_tensor(expected.name); });
    EXPECT_TRUE(error.find("model.safetensors: ends at byte ") != error.npos ||
                error.find("model.safetensors: was changed while it was read") != error.npos)
        << error;
    EXPECT_EQ(error_of([&] { checkpoint.tensor_digest(expected.name); }).empty(), false);
    std::vector<std::byte> memory(checkpoint.tensor(expected.name).bytes);
    EXPECT_EQ(error_of([&] { checkpoint.read_tensor(expected.name, memory); }), error);
  }
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), before.bytes.begin())) << "what was read stays";
}

TEST_F(CheckpointTest, DtypesMayDifferFromTensorToTensor) {
  write(llama_);
  rewrite([](TensorToWrite tensor) {
    return tensor.name == kFinalNormName ? keep(zeros(tensor.name, DType::kF32, tensor.shape)) : keep(tensor);
  });
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  EXPECT_EQ(checkpoint.tensor(kFinalNormName).dtype, DType::kF32);
  EXPECT_EQ(checkpoint.tensor(kEmbeddingName).dtype, DType::kBF16);
}

TEST_F(CheckpointTest, EosTokensComeFromGenerationConfigWhereItNamesAny) {
  write(llama_);
  EXPECT_EQ(Checkpoint::open(folder_.path()).eos_tokens().ids, std::vector<std::int64_t>{2});
  EXPECT_EQ(Checkpoint::open(folder_.path()).eos_tokens().file, "config.json");
  write_file(path(kGenerationConfigFile), R"({"temperature": 0.5, "eos_token_id": [3, 4]})");
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  EXPECT_EQ(checkpoint.eos_tokens().ids, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(checkpoint.eos_tokens().file, "generation_config.json");
  EXPECT_EQ(checkpoint.generation_config().temperature, 0.5);
  write_file(path(kGenerationConfigFile), R"({"foo": 1})");
  EXPECT_EQ(open_error(), "generation_config.json: key 'foo' with value 1 is not understood");
}

TEST_F(CheckpointTest, MissingFilesAreNamed) {
  EXPECT_EQ(error_of([] { Checkpoint::open("/nowhere"); }), "/nowhere: there is no such folder");
  EXPECT_EQ(error_of([] { Checkpoint::open("/dev/null"); }), "/dev/null: is no folder");
  EXPECT_EQ(open_error(), path("config.json") + ": cannot be opened: No such file or directory");
  write(llama_);
  write_file(path(kShardIndexFile), "{}");
  EXPECT_EQ(open_error(), folder_.path() +
                              ": has both model.safetensors and model.safetensors.index.json, so the weights are "
                              "ambiguous");
  std::filesystem::remove(path(kShardIndexFile));
  std::filesystem::remove(path(kWeightsFile));
  EXPECT_EQ(open_error(), folder_.path() +
                              ": has neither model.safetensors nor model.safetensors.index.json; other formats are "
                              "not supported");
  write_file(path(kConfigFile), std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(open_error(), "config.json: 1048577 bytes, more than the 1048576 that such a file may have");
}

TEST_F(CheckpointTest, AMissingTensorIsNamed) {
  write(llama_);
  rewrite([](TensorToWrite tensor) {
    return tensor.name == "model.layers.1.mlp.up_proj.weight" ? std::vector<TensorToWrite>() : keep(tensor);
  });
  EXPECT_EQ(open_error(), "model.safetensors: tensor 'model.layers.1.mlp.up_proj.weight' is missing");
}

TEST_F(CheckpointTest, ATensorThatTheModelDoesNotHaveIsNamed) {
  write(llama_);
  rewrite(keep, {zeros("model.layers.0.self_attn.q_proj.bias", DType::kF16, {96})});
  EXPECT_EQ(open_error(),
            "model.safetensors: tensor 'model.layers.0.self_attn.q_proj.bias' of dtype F16 and shape [96] has no place "
            "in the LlamaForCausalLM of config.json");
}

TEST_F(CheckpointTest, AWrongShapeIsNamed) {
  write(llama_);
  rewrite([](TensorToWrite tensor) {
    return tensor.name == kFinalNormName ? keep(zeros(tensor.name, DType::kBF16, {9, 10})) : keep(tensor);
  });
  EXPECT_EQ(open_error(), "model.safetensors: tensor 'model.norm.weight' has shape [9, 10]; config.json makes it [90]");
}

TEST_F(CheckpointTest, FrequenciesStoredByOldCheckpointsAreIgnored) {
  write(llama_);
  rewrite(keep, {zeros("model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, {8})});
  EXPECT_EQ(open_error(), "");
}

TEST_F(CheckpointTest, ATiedModelMayStoreItsHeadTwiceButNotTwoHeads) {
  ModelConfig tied = llama_;
  tied.tied_embeddings = true;
  write(tied);
  rewrite([](TensorToWrite tensor) {
    std::vector<TensorToWrite> both = {tensor};
    if (tensor.name == kEmbeddingName)
      both.push_back({std::string(kHeadName), tensor.dtype, tensor.shape, tensor.make_bytes});
    return both;
  });
  EXPECT_EQ(open_error(), "");
  rewrite([](TensorToWrite tensor) {
    if (tensor.name != kHeadName) return keep(tensor);
    return keep({tensor.name, tensor.dtype, tensor.shape, [tensor] {
                   std::vector<std::byte> bytes = tensor.make_bytes();
                   bytes.back() ^= std::byte{1};
                   return bytes;
                 }});
  });
  EXPECT_EQ(open_error(),
            "model.safetensors: tensor 'lm_head.weight' differs from 'model.embed_tokens.weight', but config.json has "
            "tie_word_embeddings true");
}

TEST_F(CheckpointTest, AnIndexMustAgreeWithItsShards) {
  write(llama_, DType::kBF16, 2);
  const std::string index_path = path(kShardIndexFile);
  const WeightMap honest = parse_shard_index(read_whole_file(index_path), "");
  const auto error_after = [&](const std::function<void(WeightMap&)>& change) {
    WeightMap changed = honest;
    change(changed);
    write_file(index_path, shard_index_to_json(changed, 0));
    return open_error();
  };
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";
  const std::string embedding(kEmbeddingName);
  EXPECT_EQ(error_after([](WeightMap&) {}), "");
  EXPECT_EQ(
      error_after([&](WeightMap& map) { map[embedding] = second; }),
      first + ": holds tensor 'model.embed_tokens.weight', which model.safetensors.index.json does not place there");
  EXPECT_EQ(
      error_after([&](WeightMap& map) { map.erase(embedding); }),
      first + ": holds tensor 'model.embed_tokens.weight', which model.safetensors.index.json does not place there");
  EXPECT_EQ(error_after([&](WeightMap& map) { map["other"] = first; }),
            "model.safetensors.index.json: tensor 'other' is not in " + first);
  EXPECT_EQ(error_after([&](WeightMap& map) { map["other"] = "x.safetensors"; }),
            "model.safetensors.index.json: names 'x.safetensors', which is not in " + folder_.path());
}

TEST(ShardIndex, NoNameLeadsOutOfTheFolder) {
  const auto error_for = [](const std::string& name) {
    return error_of([&] { parse_shard_index(nlohmann::json{{"weight_map", {{"t", name}}}}.dump(), "index"); });
  };
  EXPECT_EQ(error_for("a.safetensors"), "");
  for (const std::string name : {"../a.safetensors", "/etc/a.safetensors", "sub/a.safetensors", "..\\a.safetensors",
                                 "..", ".safetensors", "", "a.bin"})
    EXPECT_EQ(error_for(name), "index: weight_map puts tensor 't' into '" +
                                   nlohmann::json(name).dump().substr(1, nlohmann::json(name).dump().size() - 2) +
                                   "', which is no plain name of a .safetensors file");
  EXPECT_NE(error_for(std::string("a\0.safetensors", 14)), "");
}

TEST(ShardIndex, OtherFormsAreRefused) {
  const auto error_for = [](const std::string& json) { return error_of([&] { parse_shard_index(json, "index"); }); };
  EXPECT_EQ(error_for(R"({"metadata": {"total_size": 1}, "weight_map": {}})"), "");
  EXPECT_EQ(error_for("{}"), "index: key 'weight_map' is missing");
  EXPECT_EQ(error_for(R"({"weight_map": []})"), "index: weight_map is [], not an object");
  EXPECT_EQ(error_for(R"({"weight_map": {"t": 3}})"),
            "index: weight_map puts tensor 't' into 3, which is no plain name of a .safetensors file");
  EXPECT_EQ(error_for(R"({"weight_map": {}, "foo": 1})"), "index: key 'foo' with value 1 is not understood");
}

// Pages of files that this process holds in memory; what a sanitizer keeps beside them does not count.
std::int64_t resident_bytes() {
  std::int64_t size = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A checkpoint of 2.5 GB, all of it a hole in the file: shapes, headers and sizes are real.
TEST(CheckpointMemory, OpeningReadsNoTensorAndAViewThatGoesGivesItsMemoryBack) {
  const TemporaryFolder folder;
  write_file(folder.file("config.json"), kLlama32_1B);
  SafetensorsHeader header;
  for (const ExpectedTensor& tensor : expected_tensors(parse_config(kLlama32_1B, ""))) {
    const std::uint64_t begin = header.tensors.empty() ? 0 : header.tensors.back().end;
    const std::int64_t elements = tensor.shape[0] * (tensor.shape.size() == 2 ? tensor.shape[1] : 1);
    header.tensors.push_back({tensor.name, &stored_type(DType::kBF16), tensor.shape, begin,
                              begin + 2 * static_cast<std::uint64_t>(elements)});
  }
  const std::string json = header_to_json(header);
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(json.size() >> (8 * i));
  write_file(folder.file("model.safetensors"), length + json);
  std::filesystem::resize_file(folder.file("model.safetensors"), 8 + json.size() + header.tensors.back().end);

  constexpr std::int64_t kSmall = 16 << 20;
  const std::int64_t before = resident_bytes();
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(checkpoint.tensor_bytes(), 2 * 1'235'814'400LL);
  EXPECT_LT(resident_bytes() - before, kSmall);

  {
    const TensorView view = checkpoint.read_tensor("model.layers.0.mlp.up_proj.weight");  // 32 MiB
    int sum = 0;
    for (std::size_t i = 0; i < view.bytes.size(); i += 1024) sum += std::to_integer<int>(view.bytes[i]);
    EXPECT_EQ(sum, 0);
    EXPECT_GE(resident_bytes() - before, 32 << 20);  // so a tensor that was read would have been seen above
  }
  EXPECT_LT(resident_bytes() - before, kSmall);
}

}  // namespace
}  // namespace reprofuse::checkpoint
