#include "base/mapped_file.hpp"

#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::checkpoint {
namespace {

TEST(MappedFile, ShowsTheFilesBytes) {
  const TemporaryFolder folder;
  write_file(folder.file("x"), "abc");
  const MappedFile file(folder.file("x"));
  ASSERT_EQ(file.size(), 3U);
  EXPECT_EQ(file.bytes()[0], std::byte{'a'});
  EXPECT_EQ(file.bytes()[2], std::byte{'c'});
}

TEST(MappedFile, AnEmptyFileIsEmpty) {
  const TemporaryFolder folder;
  write_file(folder.file("x"), "");
  EXPECT_TRUE(MappedFile(folder.file("x")).bytes().empty());
}

TEST(MappedFile, SurvivesAMove) {
  const TemporaryFolder folder;
  write_file(folder.file("x"), "abc");
  write_file(folder.file("y"), "de");
  MappedFile x(folder.file("x"));
  MappedFile moved(std::move(x));
  EXPECT_EQ(moved.size(), 3U);
  moved = MappedFile(folder.file("y"));
  EXPECT_EQ(moved.size(), 2U);
  EXPECT_EQ(moved.bytes()[1], std::byte{'e'});
}

TEST(MappedFile, WhatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { MappedFile file(folder.file("x")); }),
            folder.file("x") + ": cannot be opened: No such file or directory");
  EXPECT_EQ(error_of([&] { MappedFile file(folder.path()); }), folder.path() + ": is no regular file");
}

}  // namespace
}  // namespace reprofuse::checkpoint
