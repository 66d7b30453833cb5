// Damaged and hostile safetensors files, and the words in which they are refused.
#include <gtest/gtest.h>

#include "checkpoint/safetensors.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::checkpoint {
namespace {

std::string length_of(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes;
}

// A file with that header and so many zero bytes of data.
std::string file_with(const std::string& header, std::size_t data_bytes) {
  return length_of(header.size()) + header + std::string(data_bytes, '\0');
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::string refusal(const std::string& contents) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(contents.data()), contents.size());
  const std::string message = error_of([&] { parse_safetensors_header(bytes, "m.safetensors"); });
  return message.substr(std::min(message.size(), std::string("m.safetensors: ").size()));
}

const std::string kGood =
    "{" + tensor("a", "BF16", "[2,3]", "[0,12]") + "," + tensor("b", "F32", "[1]", "[12,16]") + "}";

TEST(SafetensorsErrors, TheUndamagedFileIsAccepted) {
  EXPECT_EQ(refusal(file_with(kGood, 16)), "");
  EXPECT_EQ(refusal(file_with("{}   ", 0)), "");
  EXPECT_EQ(refusal(file_with("{" + tensor("x", "F8_E4M3", "[3]", "[0,3]") + "}", 3)), "");
}

TEST(SafetensorsErrors, EveryTruncationIsRefused) {
  const std::string whole = file_with(kGood, 16);
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  EXPECT_EQ(refusal(whole.substr(0, 7)), "7 bytes, too few for a safetensors header");
  EXPECT_EQ(refusal(whole.substr(0, 50)), "a header of 113 bytes in a file of 50; the file is truncated");
  EXPECT_EQ(refusal(whole.substr(0, 120)),  // more than 113, but a header begins at byte 8
            "a header of 113 bytes in a file of 120; the file is truncated");
  EXPECT_EQ(refusal(whole.substr(0, whole.size() - 1)),
            "tensor 'b' has data_offsets [12, 16] in 15 bytes of data; the file is truncated or damaged");
}

TEST(SafetensorsErrors, HugeHeadersAreRefusedBeforeTheyAreRead) {
  EXPECT_EQ(
      refusal(length_of(100'000'001) + "{}"),
      "is no safetensors file: its first bytes say a header of more than the 100000000 bytes that the format allows");
  EXPECT_EQ(
      refusal(length_of(UINT64_MAX) + "{}"),
      "is no safetensors file: its first bytes say a header of more than the 100000000 bytes that the format allows");
  EXPECT_EQ(refusal(length_of(100'000'000) + "{}"),
            "a header of 100000000 bytes in a file of 10; the file is truncated");
}

TEST(SafetensorsErrors, OverlapsAndHolesAreRefused) {
  const auto layout = [](const std::string& a, const std::string& b, std::size_t bytes) {
    return refusal(file_with("{" + tensor("a", "U8", "[4]", a) + "," + tensor("b", "U8", "[4]", b) + "}", bytes));
  };
  EXPECT_EQ(layout("[0,4]", "[4,8]", 8), "");
  EXPECT_EQ(layout("[4,8]", "[0,4]", 8), "");
  EXPECT_EQ(layout("[0,4]", "[2,6]", 6), "tensor 'b' begins at byte 2, inside tensor 'a', which ends at 4");
  EXPECT_EQ(layout("[0,4]", "[3,7]", 7), "tensor 'b' begins at byte 3, inside tensor 'a', which ends at 4");
  EXPECT_EQ(layout("[3,7]", "[0,4]", 7), "tensor 'a' begins at byte 3, inside tensor 'b', which ends at 4");
  EXPECT_EQ(layout("[0,4]", "[0,4]", 4), "tensor 'b' begins at byte 0, inside tensor 'a', which ends at 4");
  EXPECT_EQ(layout("[0,4]", "[5,9]", 9), "bytes 4 to 5 before tensor 'b' belong to no tensor");
  EXPECT_EQ(layout("[1,5]", "[5,9]", 9), "bytes 0 to 1 before tensor 'a' belong to no tensor");
  EXPECT_EQ(layout("[0,4]", "[4,8]", 9), "the tensors end at byte 8 of 9 bytes of data");
  EXPECT_EQ(layout("[4,0]", "[4,8]", 8),
            "tensor 'a' has data_offsets [4, 0] in 8 bytes of data; the file is truncated or damaged");
}

TEST(SafetensorsErrors, ShapesThatDoNotFitTheirBytesAreRefused) {
  const auto shape = [](const std::string& dtype, const std::string& dimensions) {
    return refusal(file_with("{" + tensor("a", dtype, dimensions, "[0,4]") + "}", 4));
  };
  EXPECT_EQ(shape("BF16", "[2]"), "");
  EXPECT_EQ(shape("F4", "[8]"), "");
  EXPECT_EQ(shape("BF16", "[3]"),
            "tensor 'a' of dtype BF16 and shape [3] has data_offsets [0, 4], which is another size");
  EXPECT_EQ(shape("F4", "[7]"), "tensor 'a' of dtype F4 and shape [7] has data_offsets [0, 4], which is another size");
  EXPECT_EQ(shape("F4", "[9]"),  // four bytes and a half
            "tensor 'a' of dtype F4 and shape [9] has data_offsets [0, 4], which is another size");
  EXPECT_EQ(shape("U8", "[4294967296,4294967296]"),  // 2^64 elements: 0 after wrapping
            "tensor 'a' of dtype U8 and shape [4294967296, 4294967296] has data_offsets [0, 4], which is another size");
  EXPECT_EQ(shape("U8", "[18446744073709551615]"), "tensor 'a' has a dimension of 18446744073709551615");
  EXPECT_EQ(shape("U8", "[4,1,1,1,1,1,1,1,1]"), "tensor 'a' has more than 8 dimensions");
  EXPECT_EQ(shape("U8", "[-4]"), "number -4 does not belong under key 'shape' of tensor 'a'");
  EXPECT_EQ(shape("U8", "[4.0]"), "number '4.0' does not belong under key 'shape' of tensor 'a'");
  EXPECT_EQ(shape("U8", "4"), "number 4 does not belong under key 'shape' of tensor 'a'");
  EXPECT_EQ(shape("F128", "[1]"), "tensor 'a' has dtype 'F128', which the format does not have");
}

TEST(SafetensorsErrors, HeadersOfAnotherFormAreRefused) {
  const auto header = [](const std::string& json) { return refusal(file_with(json, 0)); };
  const std::string empty = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(header("{\"a\":" + empty + "}"), "");
  EXPECT_EQ(header("{\"a\":" + empty + ",\"a\":" + empty + "}"), "key 'a' is given twice");
  EXPECT_EQ(header("[]"), "the header is a list, not an object");
  EXPECT_EQ(header("3"), "the header is number 3, not an object");
  EXPECT_EQ(header(R"({"a":3})"), "number 3 does not belong under key 'a'");
  EXPECT_EQ(header(R"({"a":null})"), "null does not belong under key 'a'");
  EXPECT_EQ(header(R"({"a":{}})"), "tensor 'a' lacks dtype, shape or data_offsets");
  EXPECT_EQ(header(R"({"a":{"dtype":"U8","dtype":"U8"}})"), "tensor 'a' has its dtype twice");
  EXPECT_EQ(header(R"({"a":{"stride":[1]}})"), "tensor 'a' has a field 'stride', which is not understood");
  EXPECT_EQ(header(R"({"a":{"shape":{}}})"), "an object does not belong under key 'shape' of tensor 'a'");
  EXPECT_EQ(header(R"({"a":{"shape":[[]]}})"), "a list does not belong under key 'shape' of tensor 'a'");
  EXPECT_EQ(header(R"({"a":{"data_offsets":[0]}})"), "tensor 'a' has 1 data_offsets, not 2");
  EXPECT_EQ(header(R"({"a":{"data_offsets":[0,1,2]}})"),
            "number 2 does not belong under key 'data_offsets' of tensor 'a'");
  EXPECT_EQ(header(R"({"__metadata__":{"a":"b"}})"), "");
  EXPECT_EQ(header(R"({"__metadata__":{"a":3}})"), "number 3 does not belong under key 'a'");
  EXPECT_EQ(header(R"({"__metadata__":{"a":"b","a":"c"}})"), "key 'a' of __metadata__ is given twice");
  EXPECT_EQ(header(R"({"__metadata__":"a"})"), "string 'a' does not belong under key '__metadata__'");
  for (const std::string text : {"", "{", "{}x", "{\"a\":1e999}", "{\"\xff\":1}", "{\"a\"}"})
    EXPECT_EQ(header(text).substr(0, 29), "the header is not valid JSON:") << text;
  EXPECT_EQ(header(std::string(1'000'000, '[')), "the header is a list, not an object");
  EXPECT_EQ(header("{\"a\":" + std::string(1'000'000, '[')), "a list does not belong under key 'a'");
}

TEST(SafetensorsErrors, TypesWithoutKernelsAreRefusedWhenTheyAreUsed) {
  const TemporaryFolder folder;
  write_file(folder.file("x"), file_with("{" + tensor("x", "F8_E4M3", "[3]", "[0,3]") + "}", 3));
  const Safetensors file(folder.file("x"), "x");
  EXPECT_EQ(error_of([&] { file.facts(*file.find("x")); }),
            "x: tensor 'x' has dtype F8_E4M3; BF16, F16 and F32 are supported");
}

}  // namespace
}  // namespace reprofuse::checkpoint
