#include "base/sha256.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <string_view>
#include <vector>

namespace reprofuse {
namespace {

std::string digest_of(std::string_view message) {
  Sha256 hash;
  hash.update(message.data(), message.size());
  return to_hex(hash.finish());
}

// The messages and digests of FIPS 180-4's examples.
TEST(Sha256, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      digest_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsm"
                "nopqrstnopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

TEST(Sha256, AgreesWithTheStandardOnAMillionLetters) {
  EXPECT_EQ(digest_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every length around the block and the padding boundaries, in every way of cutting it in two.
TEST(Sha256, DoesNotDependOnHowTheMessageIsCut) {
  std::string message;
  for (std::size_t length = 0; length <= 130; ++length) {
    const std::string whole = digest_of(message);
    for (std::size_t cut = 0; cut <= length; ++cut) {
      Sha256 hash;
      hash.update(message.data(), cut);
      hash.update(message.data() + cut, length - cut);
      ASSERT_EQ(to_hex(hash.finish()), whole) << "length " << length << " cut at " << cut;
    }
    message += static_cast<char>('a' + length % 26);
  }
}

// 1.0f is 00 00 80 3f in memory on a little-endian machine; the digest is of those bytes everywhere.
TEST(Sha256, OfAMatrixIsOfLittleEndianWordsWithoutPadding) {
  const std::vector<float> values = {1.0F, -2.0F, 99.0F, 0x1p-149F, -0.0F, 99.0F};  // [2, 2], stride 3
  const char bytes[] = "\x00\x00\x80\x3f\x00\x00\x00\xc0\x01\x00\x00\x00\x00\x00\x00\x80";
  EXPECT_EQ(sha256_hex({values.data(), 2, 2, 3}), digest_of({bytes, 16}));
}

TEST(Sha256, OfAMatrixSeesTheSignOfZero) {
  const float plus = 0.0F;
  const float minus = -0.0F;
  EXPECT_NE(sha256_hex({&plus, 1, 1, 1}), sha256_hex({&minus, 1, 1, 1}));
}

}  // namespace
}  // namespace reprofuse
