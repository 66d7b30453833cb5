// Programs and libraries of different ages: a struct that has grown, as each of them sees it.
#include <gtest/gtest.h>

#include "capi/boundary.hpp"
#include "support/messages.hpp"

namespace reprofuse::capi {

struct FirstVersion {
  std::uint32_t struct_size;
  std::uint32_t struct_version;
  std::int64_t known;
};

struct Grown {
  std::uint32_t struct_size;
  std::uint32_t struct_version;
  std::int64_t known;
  std::int64_t added;
};

template <>
inline constexpr std::size_t kFirstSize<Grown> = sizeof(FirstVersion);

namespace {

const auto kDefaults = [](auto& made) { made.known = 7; };

TEST(Structs, AnOlderProgramGetsTheDefaultsOfWhatItLacks) {
  struct {
    FirstVersion mine;
    std::int64_t behind;
  } memory = {{}, 99};
  auto* as_library = reinterpret_cast<Grown*>(&memory.mine);
  init_struct(as_library, sizeof(FirstVersion), "struct", kDefaults);
  EXPECT_EQ(memory.mine.struct_size, sizeof(FirstVersion));
  EXPECT_EQ(memory.mine.known, 7);
  EXPECT_EQ(memory.behind, 99) << "nothing beyond the program's struct is written";
  memory.mine.known = 8;
  const Grown read = read_struct(as_library, "struct");
  EXPECT_EQ(read.known, 8);
  EXPECT_EQ(read.added, 0) << "and nothing beyond it is read";
  fill_struct(as_library, sizeof(FirstVersion), "struct", [](Grown& to) { to.known = to.added = 5; });
  EXPECT_EQ(memory.mine.known, 5);
  EXPECT_EQ(memory.behind, 99);
}

TEST(Structs, ANewerProgramMayNotUseWhatAnOlderLibraryLacks) {
  Grown mine{.struct_size = 0, .struct_version = 0, .known = 0, .added = 99};
  auto* as_library = reinterpret_cast<FirstVersion*>(&mine);
  init_struct(as_library, sizeof(Grown), "struct", kDefaults);
  EXPECT_EQ(mine.struct_size, sizeof(Grown));
  EXPECT_EQ(mine.added, 0) << "what the library does not know is zeroed";
  EXPECT_EQ(read_struct(as_library, "struct").known, 7);
  mine.added = 256;
  EXPECT_EQ(error_of([&] { read_struct(as_library, "struct"); }),
            "byte 17 of the struct is 1; this library knows 16 of its 24 bytes, and the others must be zero");
  fill_struct(as_library, sizeof(Grown), "struct", [](FirstVersion& to) { to.known = 5; });
  EXPECT_EQ(mine.struct_size, sizeof(FirstVersion)) << "how far it was filled";
  EXPECT_EQ(mine.added, 0);
}

TEST(Structs, SizesThatNoVersionHadAreRefused) {
  Grown mine;
  init_struct(&mine, sizeof mine, "struct", kDefaults);
  for (const std::uint32_t size : {0U, 8U, 15U, 17U, 20U, 100000U}) {
    mine.struct_size = size;
    EXPECT_NE(error_of([&] { read_struct(&mine, "struct"); }).find("Call its init function"), std::string::npos)
        << size;
    EXPECT_NE(error_of([&] { init_struct(&mine, size, "struct", kDefaults); }), "") << size;
  }
}

}  // namespace
}  // namespace reprofuse::capi
