#include <gtest/gtest.h>

TEST(AgainstMpfr, NeedsTheLibrary) {
  GTEST_SKIP() << "MPFR was not found when the build was configured (on Debian: libmpfr-dev)";
}
