#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

#include "base/check.hpp"
#include "base/json.hpp"
#include "checkpoint/safetensors.hpp"

namespace reprofuse::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kMaxDimensions = 8;

// Receives the parser's events. The grammar is small and fixed, so a state says all that may come next.
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderEvents(const std::string& file) : file_(file) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_float(number_float_t, const string_t& text) override { refuse(fmt::format("number {}", Shown{text})); }
  bool binary(binary_t&) override { refuse("binary data"); }

  bool number_integer(number_integer_t value) override { refuse(fmt::format("number {}", value)); }  // < 0

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      require(value <= INT64_MAX, "{}: tensor {} has a dimension of {}", file_, Shown{tensor_.name}, value);
      require(tensor_.shape.size() < kMaxDimensions, "{}: tensor {} has more than {} dimensions", file_,
              Shown{tensor_.name}, kMaxDimensions);
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::kOffsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
    } else {
      refuse(fmt::format("number {}", value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      header_.metadata.emplace(key_, std::move(value));
    } else if (state_ == State::kTensor && key_ == "dtype") {
      tensor_.type = find_stored_type(value);
      require(tensor_.type != nullptr, "{}: tensor {} has dtype {}, which the format does not have", file_,
              Shown{tensor_.name}, Shown{value});
    } else {
      refuse(fmt::format("string {}", Shown{value}));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop && key_ == kMetadataKey) {
      state_ = State::kMetadata;
    } else if (state_ == State::kTop) {
      tensor_ = TensorEntry();
      tensor_.name = key_;
      seen_ = 0;
      state_ = State::kTensor;
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::kTop) require(names_.insert(value).second, "{}: key {} is given twice", file_, Shown{value});
    if (state_ == State::kMetadata)
      require(!header_.metadata.contains(value), "{}: key {} of {} is given twice", file_, Shown{value}, kMetadataKey);
    if (state_ == State::kTensor) note_field(value);
    key_ = std::move(value);
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) {
      require(seen_ == kAllFields, "{}: tensor {} lacks dtype, shape or data_offsets", file_, Shown{tensor_.name});
      header_.tensors.push_back(std::move(tensor_));
    }
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::kTensor && key_ == "shape") {
      state_ = State::kShape;
    } else if (state_ == State::kTensor && key_ == "data_offsets") {
      offsets_ = 0;
      state_ = State::kOffsets;
    } else {
      refuse("a list");
    }
    return true;
  }

  bool end_array() override {
    require(state_ != State::kOffsets || offsets_ == 2, "{}: tensor {} has {} data_offsets, not 2", file_,
            Shown{tensor_.name}, offsets_);
    state_ = State::kTensor;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail(ErrorCode::kInvalidArgument, "{}: the header is not valid JSON: {}", file_, error.what());
  }

 private:
  enum class State : std::uint8_t { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  static constexpr unsigned kAllFields = 7;

  void note_field(const std::string& field) {
    const unsigned bit = field == "dtype" ? 1 : field == "shape" ? 2 : field == "data_offsets" ? 4 : 0;
    require(bit != 0, "{}: tensor {} has a field {}, which is not understood", file_, Shown{tensor_.name},
            Shown{field});
    require((seen_ & bit) == 0, "{}: tensor {} has its {} twice", file_, Shown{tensor_.name}, field);
    seen_ |= bit;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    if (state_ == State::kStart) fail(ErrorCode::kInvalidArgument, "{}: the header is {}, not an object", file_, what);
    const bool inside = state_ == State::kTensor || state_ == State::kShape || state_ == State::kOffsets;
    fail(ErrorCode::kInvalidArgument, "{}: {} does not belong under key {}{}", file_, what, Shown{key_},
         inside ? fmt::format(" of tensor {}", Shown{tensor_.name}) : "");
  }

  const std::string& file_;
  State state_ = State::kStart;
  SafetensorsHeader header_;
  TensorEntry tensor_;  // the one being read
  unsigned seen_ = 0;   // its fields, as bits
  int offsets_ = 0;     // how many of its two
  std::string key_;
  std::unordered_set<std::string> names_;
};

}  // namespace

SafetensorsHeader parse_header_json(std::string_view json, const std::string& file) {
  HeaderEvents events(file);
  Json::sax_parse(json, &events);
  return events.take();
}

std::string header_to_json(const SafetensorsHeader& header) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) root.push_back({std::string(kMetadataKey), header.metadata});
  for (const TensorEntry& tensor : header.tensors)
    root.push_back(
        {tensor.name,
         {{"dtype", tensor.type->name}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}}});
  return root.dump();
}

namespace {

constexpr StoredType kTypes[] = {
    {"F32", 32, DType::kF32},
    {"BF16", 16, DType::kBF16},
    {"F16", 16, DType::kF16},
    {"BOOL", 8, {}},
    {"U8", 8, {}},
    {"I8", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"I32", 32, {}},
    {"U32", 32, {}},
    {"C64", 64, {}},
    {"F64", 64, {}},
    {"I64", 64, {}},
    {"U64", 64, {}},
};

std::uint64_t read_length(std::span<const std::byte> start, std::uint64_t file_bytes, const std::string& file) {
  require(start.size() >= kLengthBytes, "{}: {} bytes, too few for a safetensors header", file, file_bytes);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(start[i]) << (8 * i);
  require(length <= kMaxHeaderBytes,
          "{}: is no safetensors file: its first bytes say a header of more than the {} bytes that the format allows",
          file, kMaxHeaderBytes);
  require(length <= file_bytes - kLengthBytes, "{}: a header of {} bytes in a file of {}; the file is truncated", file,
          length, file_bytes);
  return length;
}

// The bytes that dtype and shape ask for, or nothing when they cannot be counted or are no whole number.
std::optional<std::uint64_t> stored_bytes(const TensorEntry& tensor) {
  std::optional<std::int64_t> bits = tensor.type->bits;
  for (const std::int64_t size : tensor.shape) {
    bits = checked_product(*bits, size);
    if (!bits) return std::nullopt;
  }
  if (*bits % 8 != 0) return std::nullopt;
  return static_cast<std::uint64_t>(*bits) / 8;
}

void check_layout(const SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t expected = 0;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry& tensor : header.tensors) {
    require(tensor.begin <= tensor.end && tensor.end <= data_bytes,
            "{}: tensor {} has data_offsets [{}, {}] in {} bytes of data; the file is truncated or damaged", file,
            Shown{tensor.name}, tensor.begin, tensor.end, data_bytes);
    const auto bytes = stored_bytes(tensor);
    require(bytes == tensor.end - tensor.begin,
            "{}: tensor {} of dtype {} and shape [{}] has data_offsets [{}, {}], which is another size", file,
            Shown{tensor.name}, tensor.type->name, fmt::join(tensor.shape, ", "), tensor.begin, tensor.end);
    require(tensor.begin >= expected, "{}: tensor {} begins at byte {}, inside tensor {}, which ends at {}", file,
            Shown{tensor.name}, tensor.begin, Shown{previous == nullptr ? "" : std::string_view(previous->name)},
            expected);
    require(tensor.begin == expected, "{}: bytes {} to {} before tensor {} belong to no tensor", file, expected,
            tensor.begin, Shown{tensor.name});
    expected = tensor.end;
    previous = &tensor;
  }
  require(expected == data_bytes, "{}: the tensors end at byte {} of {} bytes of data", file, expected, data_bytes);
}

}  // namespace

const StoredType* find_stored_type(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const StoredType& t) { return t.name == name; });
  return at == std::end(kTypes) ? nullptr : at;
}

const StoredType& stored_type(DType dtype) {
  for (const StoredType& type : kTypes)
    if (type.dtype == dtype) return type;
  fail(ErrorCode::kInternal, "internal error: dtype {} cannot be stored", dtype_name(dtype));
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> start, std::uint64_t file_bytes,
                                           const std::string& file) {
  const std::uint64_t length = read_length(start, file_bytes, file);
  invariant(start.size() >= kLengthBytes + length, "the start of a file ends within its header");
  const std::string_view json(reinterpret_cast<const char*>(start.data()) + kLengthBytes, length);
  SafetensorsHeader header = parse_header_json(json, file);
  header.data_offset = kLengthBytes + length;
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_layout(header, file_bytes - header.data_offset, file);
  return header;
}

}  // namespace reprofuse::checkpoint
