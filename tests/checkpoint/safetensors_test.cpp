#include "checkpoint/safetensors.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::checkpoint {
namespace {

std::vector<std::byte> counting_bytes(std::size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return bytes;
}

TensorToWrite counting_tensor(const std::string& name, DType dtype, std::vector<std::int64_t> shape, int first) {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
  const std::size_t bytes = elements * dtype_bytes(dtype);
  return {name, dtype, std::move(shape), [bytes, first] { return counting_bytes(bytes, first); }};
}

std::vector<std::byte> bytes_of(const TensorView& view) {
  return {view.bytes.begin(), view.bytes.end()};
}

TEST(Safetensors, SurviveWritingAndReading) {
  const TemporaryFolder folder;
  const std::vector<TensorToWrite> tensors = {
      counting_tensor("b", DType::kBF16, {3, 5}, 1), counting_tensor("a", DType::kF16, {7}, 100),
      counting_tensor("wide", DType::kF32, {2, 1, 2}, 50), counting_tensor("scalar", DType::kF32, {}, 9),
      counting_tensor("empty", DType::kBF16, {4, 0}, 0)};
  write_safetensors(folder.file("x.safetensors"), tensors, {{"format", "pt"}, {"note", "\"ü\n"}});
  const Safetensors file(folder.file("x.safetensors"), "x.safetensors");
  EXPECT_EQ(file.header().metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"note", "\"ü\n"}}));
  ASSERT_EQ(file.header().tensors.size(), tensors.size());
  for (const TensorToWrite& tensor : tensors) {
    const TensorEntry* entry = file.find(tensor.name);
    ASSERT_NE(entry, nullptr) << tensor.name;
    const TensorView view = file.read(*entry);
    EXPECT_EQ(view.name, tensor.name);
    EXPECT_EQ(view.file, "x.safetensors");
    EXPECT_EQ(view.dtype, tensor.dtype);
    EXPECT_EQ(view.shape, tensor.shape);
    EXPECT_EQ(bytes_of(view), tensor.make_bytes()) << tensor.name;
    EXPECT_EQ(view.elements(), static_cast<std::int64_t>(view.bytes.size() / dtype_bytes(view.dtype)));
  }
  EXPECT_EQ(file.find("c"), nullptr);
}

// The example of the official library's own tests, byte for byte.
TEST(Safetensors, AreWrittenAsTheOfficialLibraryWritesThem) {
  const TemporaryFolder folder;
  const TensorToWrite tensor = {"attn0", DType::kF32, {1, 1, 2, 3}, [] {
                                  std::vector<std::byte> bytes(24);
                                  for (int i = 0; i < 6; ++i) {
                                    const auto word = std::bit_cast<std::uint32_t>(static_cast<float>(i));
                                    for (int b = 0; b < 4; ++b)
                                      bytes[static_cast<std::size_t>(4 * i + b)] =
                                          static_cast<std::byte>(word >> 8 * b);
                                  }
                                  return bytes;
                                }};
  write_safetensors(folder.file("x"), {&tensor, 1});
  const std::string header = R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )";
  const std::string expected = std::string("\x48\0\0\0\0\0\0\0", 8) + header +
                               std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40", 24);
  EXPECT_EQ(read_whole_file(folder.file("x")), expected);
}

TEST(Safetensors, AllElementsOfAWrittenFileAreAligned) {
  const TemporaryFolder folder;
  write_safetensors(
      folder.file("x"),
      std::vector<TensorToWrite>{counting_tensor("a", DType::kBF16, {3}, 0), counting_tensor("bb", DType::kF32, {3}, 0),
                                 counting_tensor("c", DType::kF16, {1}, 0), counting_tensor("d", DType::kF32, {1}, 0)});
  const Safetensors file(folder.file("x"), "x");
  for (const TensorEntry& entry : file.header().tensors) {
    EXPECT_EQ((file.header().data_offset + entry.begin) % dtype_bytes(*entry.type->dtype), 0U) << entry.name;
    EXPECT_EQ(HostTensor(file.read(entry)).is_copy(), !kFileOrderIsHostOrder);
  }
}

TEST(Safetensors, FillMemoryOfTheCallerThatHasTheRightSize) {
  const TemporaryFolder folder;
  write_safetensors(folder.file("x"), std::vector<TensorToWrite>{counting_tensor("a", DType::kBF16, {3}, 5),
                                                                 counting_tensor("b", DType::kBF16, {0}, 5)});
  const Safetensors file(folder.file("x"), "x");
  const TensorEntry& entry = *file.find("a");
  EXPECT_EQ(file.facts(entry).bytes, 6U);
  std::vector<std::byte> memory(6);
  file.read_into(entry, memory);
  EXPECT_EQ(memory, counting_bytes(6, 5));
  file.read_into(*file.find("b"), {});
  EXPECT_EQ(error_of([&] { file.read_into(entry, std::span(memory).first(5)); }),
            "x: tensor 'a' has 6 bytes, and there is memory for 5");
}

TEST(Safetensors, UnalignedElementsAreCopiedForTheKernels) {
  alignas(4) const unsigned char bytes[10] = {0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
  const HostTensor host({"x", "x", std::as_bytes(std::span(bytes).last(8)), DType::kF32, {2}});
  EXPECT_TRUE(host.is_copy());
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(host.data()) % 4, 0U);
  float values[2];
  std::memcpy(values, host.data(), sizeof(values));
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], -2.0F);
}

TEST(Safetensors, HostTensorsHoldTheValuesWhateverTheMachinesByteOrder) {
  const TemporaryFolder folder;
  const TensorToWrite tensor = {
      "x", DType::kBF16, {2}, [] {
        return std::vector<std::byte>{std::byte{0x80}, std::byte{0x3f}, std::byte{0x00}, std::byte{0xc0}};
      }};
  write_safetensors(folder.file("x"), {&tensor, 1});
  const Safetensors file(folder.file("x"), "x");
  const HostTensor host(file.read(*file.find("x")));
  std::uint16_t values[2];
  std::memcpy(values, host.data(), sizeof(values));
  EXPECT_EQ(values[0], 0x3f80);  // 1
  EXPECT_EQ(values[1], 0xc000);  // -2
}

TEST(Safetensors, SwappingBytesReversesEachElement) {
  std::vector<std::byte> bytes = counting_bytes(8, 1);
  swap_element_bytes(bytes, DType::kF16);
  EXPECT_EQ(bytes, (std::vector<std::byte>{std::byte{2}, std::byte{1}, std::byte{4}, std::byte{3}, std::byte{6},
                                           std::byte{5}, std::byte{8}, std::byte{7}}));
  bytes = counting_bytes(8, 1);
  swap_element_bytes(bytes, DType::kF32);
  EXPECT_EQ(bytes, (std::vector<std::byte>{std::byte{4}, std::byte{3}, std::byte{2}, std::byte{1}, std::byte{8},
                                           std::byte{7}, std::byte{6}, std::byte{5}}));
}

TEST(Safetensors, AMovedFileKeepsItsTensors) {
  const TemporaryFolder folder;
  write_safetensors(folder.file("x"), std::vector<TensorToWrite>{counting_tensor("a", DType::kBF16, {3}, 5)});
  Safetensors file(folder.file("x"), "x");
  const Safetensors moved = std::move(file);
  EXPECT_EQ(bytes_of(moved.read(*moved.find("a"))), counting_bytes(6, 5));
}

TEST(Safetensors, AWriterWithTheWrongNumberOfBytesIsRefused) {
  const TemporaryFolder folder;
  const TensorToWrite tensor = {"x", DType::kF32, {3}, [] { return counting_bytes(8, 0); }};
  EXPECT_EQ(error_of([&] {
              write_safetensors(folder.file("x"), {&tensor, 1});
            }),
            folder.file("x") + ": tensor 'x' of shape [3] has 8 bytes");
  EXPECT_EQ(error_of([&] { write_safetensors("/nowhere/x", {&tensor, 1}); }), "/nowhere/x: cannot be written");
}

}  // namespace
}  // namespace reprofuse::checkpoint
