#include <gtest/gtest.h>

#include "study/bench/machine.hpp"

namespace reprofuse::study {
namespace {

TEST(OtherLoad, TicksThatCoresWereNotIdleAreAddedUp) {
  const auto ticks = busy_ticks("cpu  100 20 3 5000 400 5 6 7 90 8\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  ASSERT_TRUE(ticks);
  EXPECT_EQ(*ticks, 100 + 20 + 3 + 5 + 6 + 7) << "neither idle nor waiting; guests are in user and nice already";
}

TEST(OtherLoad, AnythingElseIsNoAnswer) {
  for (const char* text : {"", "cpu", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7", "cpu 1 2 x 4 5 6 7 8"})
    EXPECT_FALSE(busy_ticks(text)) << text;
}

TEST(OtherLoad, WhatThisProgramDoesIsNotOthers) {
  EXPECT_DOUBLE_EQ(other_cores({.at = 50, .all = 100, .own = 5}, {.at = 60, .all = 118, .own = 15}), 0.8);
  EXPECT_EQ(other_cores({.at = 50, .all = 100, .own = 5}, {.at = 60, .all = 109, .own = 15}), 0) << "ticks are coarse";
  EXPECT_EQ(other_cores({.at = 50, .all = 100, .own = 5}, {.at = 50, .all = 100, .own = 5}), 0);
}

}  // namespace
}  // namespace reprofuse::study
