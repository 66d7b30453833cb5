// The table of contracts and baselines.
#include <gtest/gtest.h>

#include "ops/context_state.hpp"
#include "ops/contract.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/probe/probe.hpp"
#include "support/messages.hpp"

namespace reprofuse {
namespace {

std::string error_of(const Numerics& (*find)(std::string_view), std::string_view name) {
  try {
    find(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(Contracts, AreListedBeforeTheBaselines) {
  EXPECT_EQ(numerics_names(), (std::vector<std::string_view>{"fma-1", "fma-1-kv16", "exact-1", "exact-1-kv16",
                                                             "exact-2", "int16-1", "layercast", "bf16", "sgemm"}));
  EXPECT_EQ(contracts().size() + baselines().size(), all_numerics().size());
  for (const Numerics& contract : contracts()) EXPECT_TRUE(contract.is_contract()) << contract.name;
  for (const Numerics& baseline : baselines()) EXPECT_FALSE(baseline.is_contract()) << baseline.name;
}

TEST(Contracts, AloneHaveAReferenceAndDigests) {
  for (const Numerics* row : all_numerics()) {
    EXPECT_EQ(row->linear->reference != nullptr, row->is_contract()) << row->name;
    if (row->is_contract())
      EXPECT_FALSE(study::golden_file(row->linear->name).empty()) << row->name;
    else
      EXPECT_THROW(study::golden_file(row->linear->name), Error) << row->name;
  }
}

TEST(Contracts, WithBf16KeysAndValuesDifferInTheCacheAlone) {
  for (const std::string name : {"fma-1", "exact-1"}) {
    const Numerics& plain = find_contract(name);
    const Numerics& kv16 = find_contract(name + "-kv16");
    EXPECT_EQ(plain.cache->dtype, DType::kF32);
    EXPECT_EQ(kv16.cache->dtype, DType::kBF16);
    EXPECT_EQ(plain.linear->name, name);
    EXPECT_EQ(kv16.linear, plain.linear);
    EXPECT_EQ(kv16.attention, plain.attention);
    EXPECT_EQ(kv16.elementwise, plain.elementwise);
  }
}

TEST(Contracts, OnlyBf16RoundsActivations) {
  for (const Numerics* row : all_numerics())
    EXPECT_EQ(row->elementwise->bf16_results, row->name == "bf16") << row->name;
}

TEST(Contracts, SayWhatMultiplies) {
  using kernels::Multiplier;
  EXPECT_EQ(find_numerics("exact-1").linear->multiplier_on("cuda"), Multiplier::kInteger8);
  EXPECT_EQ(find_numerics("fma-1").linear->multiplier_on("cuda"), Multiplier::kBinary32);
  EXPECT_EQ(find_numerics("bf16").linear->multiplier_on("cuda"), Multiplier::kBf16);
  EXPECT_EQ(find_numerics("bf16").linear->multiplier_on("cpu"), Multiplier::kBinary32);
}

TEST(Contracts, ErrorsListWhatThereIs) {
  EXPECT_EQ(error_of(find_numerics, "fma-0"),
            "numerics 'fma-0' does not exist; there are fma-1, fma-1-kv16, exact-1, exact-1-kv16, exact-2, int16-1, "
            "layercast, bf16, sgemm");
  EXPECT_EQ(error_of(find_contract, "fma-0"), error_of(find_numerics, "fma-0"));
  EXPECT_EQ(error_of(find_contract, "bf16"),
            "numerics 'bf16' pins no bits; this needs a contract: fma-1, fma-1-kv16, exact-1, exact-1-kv16, exact-2, "
            "int16-1");
  EXPECT_EQ(error_of(find_numerics, "bf16"), "");
  EXPECT_EQ(error_of(find_contract, "int16-1"), "");
}

// No row of the table is one now: a contract is, from its first kernels to its golden digests.
TEST(Contracts, ADraftPinsBitsWithinItsVersionAlone) {
  for (const Numerics& contract : contracts()) EXPECT_EQ(&require_pinned(contract), &contract);
  Numerics draft = find_contract("exact-2");
  EXPECT_TRUE(draft.pinned());
  draft.draft = true;
  EXPECT_TRUE(draft.is_contract());
  EXPECT_FALSE(draft.pinned());
  EXPECT_EQ(reprofuse::error_of([&] { require_pinned(draft); }),
            "contract 'exact-2' is a draft: its bits may change with the next version");
}

TEST(Contracts, AndBaselinesAreAllNamesOfContexts) {
  for (const std::string_view name : numerics_names()) EXPECT_EQ(Context::cpu(name, std::nullopt, 1).numerics(), name);
}

}  // namespace
}  // namespace reprofuse
