#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::checkpoint {
namespace {

TEST(SourceFile, ReadsPartsOfAnySizeAndTheyStayWhatTheyWere) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < (40U << 20); ++i) text += std::to_string(i);  // more than one thread reads at a time
  write_file(folder.file("x"), text);
  const SourceFile file(folder.file("x"));
  ASSERT_EQ(file.size(), text.size());
  for (const auto& [offset, bytes] :
       {std::pair<std::size_t, std::size_t>{0, text.size()}, {5, 7}, {3, 0}, {(16U << 20) - 1, (17U << 20) + 3}}) {
    const auto part = file.read(offset, bytes);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(part.get()), bytes),
              std::string_view(text).substr(offset, bytes));
  }
  const auto before = file.read(0, 3);
  std::ofstream(folder.file("x"), std::ios::in | std::ios::out | std::ios::binary) << "abc";
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(before.get()), 3), "012");
}

TEST(SourceFile, AFileThatChangedIsAnErrorThatSaysSo) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  write_file(path, std::string(100, 'a'));
  const SourceFile file(path);
  (void)file.read(0, 100);
  const auto before = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, before + std::chrono::seconds(1));
  EXPECT_EQ(error_of([&] { (void)file.read(0, 100); }), path + ": was changed while it was read");
  std::filesystem::last_write_time(path, before);
  (void)file.read(0, 100);
  std::filesystem::resize_file(path, 40);
  EXPECT_EQ(error_of([&] { (void)file.read(0, 100); }), path + ": ends at byte 40, and had 100 when it was opened");
  EXPECT_EQ(error_of([&] { (void)file.read(50, 10); }), path + ": ends at byte 50, and had 100 when it was opened");
  EXPECT_EQ(error_of([&] { (void)file.read(0, 10); }), path + ": was changed while it was read");
}

TEST(SourceFile, SurvivesAMove) {
  const TemporaryFolder folder;
  write_file(folder.file("x"), "abc");
  SourceFile x(folder.file("x"));
  SourceFile moved(std::move(x));
  EXPECT_EQ(moved.read(1, 1)[0], std::byte{'b'});
  moved = SourceFile(folder.file("x"));
  EXPECT_EQ(moved.size(), 3U);
}

TEST(SourceFile, WhatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { SourceFile file(folder.file("x")); }),
            folder.file("x") + ": cannot be opened: No such file or directory");
  EXPECT_EQ(error_of([&] { SourceFile file(folder.path()); }), folder.path() + ": is no regular file");
}

}  // namespace
}  // namespace reprofuse::checkpoint
