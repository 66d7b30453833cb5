#include "base/mapped_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(MappedFile, BytesCanBeReadAgainAfterTheyWereGivenBack) {
  const TemporaryFolder folder;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  write_file(folder.file("x"), std::string(page, 'a') + std::string(page, 'b') + std::string(page, 'c'));
  const MappedFile file(folder.file("x"));
  file.advise_dontneed(file.bytes());
  file.advise_dontneed(file.bytes().subspan(page - 1, page + 2));
  file.advise_dontneed(file.bytes().subspan(5, 7));
  file.advise_dontneed({});
  EXPECT_EQ(file.bytes()[page - 1], std::byte{'a'});
  EXPECT_EQ(file.bytes()[page], std::byte{'b'});
  EXPECT_EQ(file.bytes()[3 * page - 1], std::byte{'c'});
  const std::byte elsewhere = {};
  EXPECT_THROW(file.advise_dontneed({&elsewhere, 1}), Error);
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
