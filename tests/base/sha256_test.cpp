#include <gtest/gtest.h>

#include <bit>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.hpp"

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

Sha256::Digest leaf_of(const std::vector<std::uint8_t>& data) {
  return merkle_leaf(std::span<const std::uint8_t>(data));
}

// The definition, word for word: the left subtree has the largest power of two below n.
Sha256::Digest root_by_definition(std::span<const Sha256::Digest> leaves) {
  if (leaves.size() == 1) return leaves[0];
  const std::size_t left = std::bit_floor(leaves.size() - 1);
  return merkle_node(root_by_definition(leaves.first(left)), root_by_definition(leaves.subspan(left)));
}

// The entries and roots that implementations of Certificate Transparency test themselves with.
TEST(Merkle, AgreesWithTheTreesOfCertificateTransparency) {
  const std::vector<std::vector<std::uint8_t>> entries = {
      {},
      {0x00},
      {0x10},
      {0x20, 0x21},
      {0x30, 0x31},
      {0x40, 0x41, 0x42, 0x43},
      {0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57},
      {0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f}};
  const std::string roots[] = {"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
                               "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
                               "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
                               "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
                               "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
                               "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
                               "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
                               "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
  std::vector<Sha256::Digest> leaves;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    leaves.push_back(leaf_of(entries[i]));
    EXPECT_EQ(to_hex(merkle_root(leaves)), roots[i]);
  }
}

TEST(Merkle, EveryNumberOfLeavesGivesTheTreeOfTheDefinition) {
  std::vector<Sha256::Digest> leaves;
  for (std::uint8_t i = 0; i < 70; ++i) {
    leaves.push_back(leaf_of({i}));
    EXPECT_EQ(merkle_root(leaves), root_by_definition(leaves)) << leaves.size();
  }
  std::vector<Sha256::Digest> swapped = leaves;
  std::swap(swapped[3], swapped[68]);
  EXPECT_NE(merkle_root(swapped), merkle_root(leaves));
}

TEST(Merkle, APathLeadsFromEachLeafToTheRootAndFromNoOther) {
  std::vector<Sha256::Digest> leaves;
  for (std::uint8_t count = 1; count <= 20; ++count) {
    leaves.push_back(leaf_of({count}));
    const Sha256::Digest root = merkle_root(leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const std::vector<Sha256::Digest> path = merkle_path(merkle_levels(leaves), i);
      EXPECT_EQ(merkle_root_by(leaves[i], i, leaves.size(), path), root) << i << " of " << leaves.size();
      EXPECT_NE(merkle_root_by(leaf_of({0}), i, leaves.size(), path), root) << "another leaf";
      EXPECT_NE(merkle_root_by(leaves[i], i ^ 1, leaves.size(), path), root) << "another place";
      std::vector<Sha256::Digest> longer = path;
      longer.push_back(root);
      EXPECT_FALSE(merkle_root_by(leaves[i], i, leaves.size(), longer));
      longer.resize(path.empty() ? 1 : path.size() - 1);
      EXPECT_FALSE(merkle_root_by(leaves[i], i, leaves.size(), longer)) << "too long or too short";
    }
    EXPECT_FALSE(merkle_root_by(leaves[0], leaves.size(), leaves.size(), {}));
  }
}

}  // namespace
}  // namespace reprofuse
