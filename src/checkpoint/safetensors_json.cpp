#include "checkpoint/safetensors_json.hpp"

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/check.hpp"
#include "checkpoint/json_reader.hpp"

namespace reprofuse::checkpoint {
namespace {

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

}  // namespace reprofuse::checkpoint
