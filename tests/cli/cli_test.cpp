// The command line as a user meets it: the real binary, its output and its exit status.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_cli.hpp"
#include "kernels/backend.hpp"
#include "ops/contract.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// The committed file with its cases changed by `change`, written into `folder`.
template <typename Change>
std::string altered_golden(const TemporaryFolder& folder, Change change) {
  Json golden = Json::parse(read_whole_file(REPROFUSE_GOLDEN));
  change(golden.at("cases"));
  std::string path = folder.file("golden.json");
  write_file(path, golden.dump());
  return path;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

const std::string kDefaultNote = ", the default there; --numerics chooses another";

// A device needs no opening to have one, and each pins every bit.
TEST(DefaultNumerics, AreThoseThatMeasurementsFavourOnADevice) {
  EXPECT_EQ(default_numerics("cpu"), "fma-1");
  EXPECT_EQ(default_numerics("cuda"), "int16-1");
  EXPECT_EQ(default_numerics("cuda:3"), "int16-1");
  for (const kernels::BackendRow& row : kernels::backends())
    EXPECT_EQ(find_contract(default_numerics(row.name)).name, default_numerics(row.name));
  EXPECT_THROW(default_numerics("tpu"), Error);
  EXPECT_EQ(Context::open("cpu").numerics(), kDefaultNumerics) << "the library has one for every device";
}

TEST(DefaultNumerics, AreToldInTheFirstLine) {
  const TemporaryFolder folder;
  write_file(folder.file("task.jsonl"), "{\"id\": \"a\", \"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
  const std::string task = "study run --seeds 1 --max-tokens 2 --task '" + folder.file("task.jsonl") + "' --out ";
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"stress --requests 2 --schedules 0 --threads 1", ", fma-1"},
      {"trace --prompt-tokens 1,2 --out '" + folder.file("trace") + "' --threads 1", ", fma-1"},
      {"bench linear --shapes 64x128 --m 1 --threads 1", "Contract fma-1 on "},
      {"bench engine --model '" REPROFUSE_BUNDLED_MODEL "' --batch 1 --prompt 4 --tokens 2 --threads 1", ": fma-1"},
      {task + "'" + folder.file("a.run") + "'", ": fma-1"}};
  for (const auto& [command, numerics] : commands) {
    const std::string line = first_line(reprofuse(command).out);
    EXPECT_TRUE(contains(line, numerics) && line.ends_with(kDefaultNote)) << command << "\n" << line;
  }
  for (const std::string command : {"stress --requests 2 --schedules 0 --threads 1 --numerics fma-1",
                                    "bench linear --shapes 64x128 --m 1 --threads 1 --numerics fma-1"}) {
    const Finished run = reprofuse(command);
    EXPECT_TRUE(contains(first_line(run.out), "fma-1") && !contains(run.out, kDefaultNote)) << run.out;
  }
  EXPECT_TRUE(contains(reprofuse("info").out, "  cpu          fma-1\n  cuda         int16-1\n"));
}

TEST(DefaultNumerics, OfOneSideOfADiffAreThoseOfTheOther) {
  for (const std::string sides : {"cpu cpu/exact-1", "cpu/exact-1 cpu"}) {
    const Finished run = reprofuse("diff " + sides + " --prompt-tokens 1,2,3 --max-tokens 1");
    EXPECT_EQ(run.status, 0) << run.out << run.err;
    EXPECT_FALSE(contains(run.out, "fma-1")) << run.out;
  }
  EXPECT_EQ(reprofuse("diff cpu/fma-1 cpu/exact-1 --prompt-tokens 1,2,3 --max-tokens 1").status, 1) << "the control";
  EXPECT_TRUE(contains(reprofuse("diff cpu cpu --prompt-tokens 1,2,3 --max-tokens 1").out, ", fma-1\n"));
}

TEST(ProbeCommand, QuickCheckPasses) {
  for (const std::string numerics : {"fma-1", "exact-1", "exact-2"}) {
    const Finished run = reprofuse("probe --quick --check --numerics " + numerics);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(contains(run.out, "Contract " + numerics + " on cpu ")) << run.out;
    EXPECT_TRUE(contains(run.out, "Rows: invariant.")) << run.out;
    EXPECT_TRUE(contains(run.out, "Models: the same.")) << run.out;
    EXPECT_TRUE(contains(run.out, "Digests: the same. All 7 ")) << run.out;
  }
}

TEST(ProbeCommand, JsonHasTheDocumentedKeysAndTheForcedIsaReallyRan) {
  for (const Isa isa : supported_isas()) {
    const std::string name(isa_name(isa));
    const Finished run = reprofuse("probe --quick --cases 'ragged-*' --json --check --isa " + name);
    ASSERT_EQ(run.status, 0) << run.err;
    const Json json = Json::parse(run.out);
    std::vector<std::string> keys = keys_of(json);
    keys.resize(7);  // what follows the documented ones may grow
    EXPECT_EQ(keys, (std::vector<std::string>{"contract", "device", "isa", "cases", "models", "row_invariant",
                                              "matches_golden"}));
    EXPECT_EQ(json["contract"], "fma-1");
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_EQ(json["isa"], name);
    EXPECT_EQ(json["row_invariant"], true);
    EXPECT_EQ(json["matches_golden"], true);
    ASSERT_EQ(json["cases"].size(), 1U);
    const Json& ragged = json["cases"][0];
    EXPECT_EQ(keys_of(ragged), (std::vector<std::string>{"name", "m", "n", "k", "weights", "sha256"}));
    EXPECT_EQ(ragged["name"], "ragged-bf16");
    EXPECT_EQ(ragged["m"], 7);
    EXPECT_EQ(ragged["weights"], "bf16");
    EXPECT_EQ(ragged["sha256"].get<std::string>().size(), 64U);
  }
}

TEST(ProbeCommand, SelectedCasesBringTheModelsOnRequestAlone) {
  const Finished run = reprofuse("probe --quick --json --check --cases ragged-bf16 --models");
  ASSERT_EQ(run.status, 0) << run.err;
  const Json models = Json::parse(run.out)["models"];
  EXPECT_GE(models.size(), 8U);
  for (const Json& model : models) EXPECT_EQ(model["sha256"].get<std::string>().size(), 64U) << model;
  EXPECT_TRUE(Json::parse(reprofuse("probe --quick --json --cases ragged-bf16").out)["models"].empty());
}

TEST(ProbeCommand, AnIsaTheMachineLacksIsAnError) {
  int lacking = 0;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    const auto supported = supported_isas();
    if (std::find(supported.begin(), supported.end(), isa) != supported.end()) continue;
    ++lacking;
    const Finished run = reprofuse("probe --quick --isa " + std::string(isa_name(isa)));
    EXPECT_EQ(run.status, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_TRUE(contains(run.err, "reprofuse: this machine or build has no " + std::string(isa_name(isa)))) << run.err;
  }
  EXPECT_GE(lacking, 1) << "no machine has both AVX and NEON";
}

TEST(ProbeCommand, CudaWithoutADeviceIsAnErrorThatSaysWhy) {
  std::string reason;
  try {
    Context::cuda();
    GTEST_SKIP() << "this machine has a CUDA device";
  } catch (const Error& error) {
    reason = error.what();
  }
  const Finished run = reprofuse("probe --quick --device cuda");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.err, "reprofuse: " + reason + "\n");
}

TEST(ProbeCommand, CheckFailsOnATamperedDigestAndNamesTheCase) {
  const TemporaryFolder folder;
  const std::string golden = altered_golden(folder, [](Json& cases) {
    for (Json& entry : cases)
      if (entry["name"] == "decode-f16") entry["sha256"] = std::string(64, '0');
  });
  const std::string arguments = "probe --quick --cases 'decode-*' --golden '" + golden + "'";
  const Finished check = reprofuse(arguments + " --check");
  EXPECT_EQ(check.status, 1);
  EXPECT_TRUE(contains(check.err, "reprofuse: probe: decode-f16 does not match: digest ")) << check.err;
  EXPECT_TRUE(contains(check.err, "it is the golden digest that is wrong")) << check.err;

  const Finished shown = reprofuse(arguments + " --json");
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(Json::parse(shown.out)["matches_golden"], false);
}

TEST(ProbeCommand, CheckFailsOnACaseThatGoldenLacks) {
  const TemporaryFolder folder;
  const std::string golden = altered_golden(folder, [](Json& cases) { cases = Json::array(); });
  const Finished run = reprofuse("probe --quick --cases ragged-bf16 --check --golden '" + golden + "'");
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(contains(run.err, "ragged-bf16 does not match: there is no golden digest for it")) << run.err;
}

TEST(ProbeCommand, TheReferenceCanBeProbedToo) {
  const Finished run = reprofuse("probe --quick --cases ragged-bf16 --reference --json --check");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out)["isa"], "reference");
}

TEST(ProbeCommand, AGoldenFileIsNeverOverwritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("kept.json");
  write_file(path, "kept");
  const Finished run = reprofuse("probe --write-golden '" + path + "'");
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(contains(run.err, "golden digests never change")) << run.err;
  EXPECT_EQ(read_whole_file(path), "kept");
}

TEST(ProbeCommand, APipeGetsWholeDigestsAndNoEscapes) {
  const Finished run = reprofuse("probe --quick --cases ragged-bf16");
  EXPECT_EQ(run.status, 0);
  EXPECT_FALSE(contains(run.out, "\x1b"));
  EXPECT_EQ(run.err, "");
  const Json golden = Json::parse(read_whole_file(REPROFUSE_GOLDEN));
  for (const Json& entry : golden["cases"])
    if (entry["name"] == "ragged-bf16") {
      EXPECT_TRUE(contains(run.out, entry["sha256"].get<std::string>())) << run.out;
    }
}

TEST(CommandLine, AnUnknownCommandIsNamed) {
  const Finished run = reprofuse("frobnicate");
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(contains(run.err, "there is no command 'frobnicate'")) << run.err;
}

TEST(CommandLine, AnOptionThatIsNotThereIsNamedWithTheNearest) {
  for (const auto& [arguments, answer] : std::vector<std::pair<std::string, std::string>>{
           {"probe --numeric fma-1", "probe has no option '--numeric'; did you mean '--numerics'?"},
           {"stress --request=5", "stress has no option '--request'; did you mean '--requests'?"},
           {"info arithmetic-7m", "info was given 'arithmetic-7m', which belongs to no option"},
           {"--verson", "reprofuse has no option '--verson'; did you mean '--version'?"},
           {"", "reprofuse needs a command: generate, "}}) {
    const Finished run = reprofuse(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_TRUE(contains(run.err, answer)) << arguments << ": " << run.err;
  }
}

TEST(ProbeCommand, GoldenDigestsThatCannotBeWrittenAreAnErrorBeforeAnythingIsComputed) {
  const Finished run = reprofuse("probe --write-golden /nowhere/golden.json");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(contains(run.err, "/nowhere/golden.json: cannot be written")) << run.err;
}

TEST(CommandLine, UsageErrorsExit2WithAHint) {
  for (const char* arguments :
       {"", "prove", "probe --isa mmx", "probe --threads -1", "probe --quick --write-golden x", "probe --models",
        "probe --numerics fma-0", "probe --device cuda --isa scalar", "probe --cases nothing-*", "--frobnicate",
        "info --modle x", "ablate r5", "stress --seed x"}) {
    const Finished run = reprofuse(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_EQ(run.err.find("reprofuse: "), 0U) << run.err;
    EXPECT_TRUE(contains(run.err, " --help'")) << run.err;
  }
}

TEST(CommandLine, ErrorsExit1OnOneLine) {
  for (const char* arguments : {"probe --golden /nowhere.json", "info --model /nowhere", "stress --model /nowhere"}) {
    const Finished run = reprofuse(arguments);
    EXPECT_EQ(run.status, 1) << arguments;
    EXPECT_EQ(run.err.find("reprofuse: "), 0U) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
}

TEST(CommandLine, VersionHelpAndInfo) {
  EXPECT_EQ(reprofuse("--version").out, std::string("reprofuse ") + REPROFUSE_VERSION + "\n");
  const Finished help = reprofuse("probe --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_TRUE(contains(help.out, "--check")) << help.out;
  const Finished info = reprofuse("info");
  EXPECT_EQ(info.status, 0);
  for (const std::string_view name : numerics_names()) {
    EXPECT_TRUE(contains(info.out, "\n  " + std::string(name) + " ")) << info.out;
    for (const char* command : {"generate", "bench linear", "bench model", "bench engine"})
      EXPECT_TRUE(contains(reprofuse(std::string(command) + " --help").out, std::string(name)))
          << command << " " << name;
  }
  for (const Numerics& contract : contracts()) EXPECT_TRUE(contains(help.out, std::string(contract.name))) << help.out;
  for (const Device& device : devices()) EXPECT_TRUE(contains(info.out, "\n  " + device.name + " ")) << info.out;
  for (const Isa isa : supported_isas()) EXPECT_TRUE(contains(info.out, std::string(isa_name(isa)))) << info.out;
}

}  // namespace
}  // namespace reprofuse
