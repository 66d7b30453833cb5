// Times attention on the GPU for the shapes of Llama-3.2-3B and 8B: decode beside a plain read of the same keys and
// values, its floor; prefill beside the peak of fused multiply-adds. Layers rotate past the L2, graphs are replayed.
//   attention_cuda            what the library chooses
//   attention_cuda --sweep    decode of Llama-3.2-3B, beside the choice, direct and by stream with more and
//                             fewer CTAs that share a row
//   attention_cuda --prefill  prefill alone, of more lengths and heads
//   attention_cuda --int16    contract int16-1 beside fma-1 with a cache of 16 bits, whose keys and values are as long;
//                             with --int16-prefill prefill by int16-1 alone
//   attention_cuda --exact2   contract exact-2 beside fma-1 with a cache of 32 bits
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/integer/attention.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/bench/linear.hpp"
#include "study/seeded/inputs.hpp"
#include "support/device_buffer.hpp"

namespace {

using namespace reprofuse;
using cuda::DeviceBuffer;

const kernels::Backend& backend() {
  static const Context context = Context::cuda();
  return *context.state().backend;
}

struct Shape {
  const char* name;
  std::int32_t heads, kv_heads, head_dim;
};
constexpr Shape kShapes[] = {{"llama-3.2-3b", 24, 8, 128}, {"llama-3.1-8b", 32, 8, 128}, {"qwen3-0.6b", 16, 8, 128}};
constexpr std::int32_t kPageSize = 64;
constexpr std::size_t kPastL2 = std::size_t{256} << 20;
constexpr int kRepeats = 21;

// How keys and values are stored, and by which contract they are attended to.
struct Format {
  const char* name;
  DType dtype;
  int digits = 0;  // of integers

  std::size_t element_bytes() const {
    return digits == 0 ? static_cast<std::size_t>(dtype_bytes(dtype)) : static_cast<std::size_t>(digits);
  }
};
constexpr Format kF32{"f32", DType::kF32}, kBf16{"bf16", DType::kBF16}, kInt16{"i16", DType::kBF16, 2},
    kInt24{"i24", DType::kBF16, 3};

template <typename T>
DeviceBuffer upload(const std::vector<T>& values) {
  DeviceBuffer buffer(0, values.size() * sizeof(T));
  cuda::copy_to_device(buffer.as<void>(), values.data(), values.size() * sizeof(T));
  return buffer;
}

// `sequences` sequences of `context` tokens, of which the last `rows` are computed, over as many layers as it takes to
// leave the L2.
class Problem {
 public:
  Problem(const Shape& shape, const Format& format, std::int32_t sequences, std::int32_t context, std::int32_t rows)
      : shape_(shape), format_(format), sequences_(sequences), context_(context), rows_(rows) {
    const std::int32_t pages = ceil_div(context, kPageSize), m = sequences * rows;
    std::vector<std::int32_t> table(static_cast<std::size_t>(sequences) * static_cast<std::size_t>(pages));
    std::iota(table.rbegin(), table.rend(), 0);
    std::vector<kernels::Chunk> chunks;
    std::vector<std::int32_t> positions, owners;
    for (std::int32_t s = 0; s < sequences; ++s) {
      chunks.push_back({s * rows, rows, context - rows, s});
      for (std::int32_t r = 0; r < rows; ++r) {
        positions.push_back(context - rows + r);
        owners.push_back(s);
      }
    }
    table_ = upload(table);
    chunks_ = upload(chunks);
    positions_ = upload(positions);
    owners_ = upload(owners);
    bytes_ =
        table.size() * static_cast<std::size_t>(shape.kv_heads * shape.head_dim * kPageSize) * format.element_bytes();
    ThreadPool pool(available_cores());
    const auto elements = static_cast<std::int64_t>(bytes_ / dtype_bytes(format.dtype));
    const std::vector<std::byte> noise = study::make_weights(1, format.dtype, 1, elements, pool).storage;
    for (std::size_t total = 0; total == 0 || total < kPastL2; total += 2 * bytes_) {
      keys_.push_back(upload(noise));
      values_.push_back(upload(noise));
    }
    // Units of numbers near 1, some larger than others.
    std::vector<std::uint8_t> units(bytes_ / format.element_bytes() / static_cast<std::size_t>(shape.head_dim));
    for (std::size_t i = 0; i < units.size(); ++i)
      units[i] = static_cast<std::uint8_t>((format.digits == 3 ? 104U : 112U) + i * 7 % 3);
    units_ = upload(units);
    q_ = upload(study::make_activations(2, m, shape.heads * shape.head_dim));
    out_ = DeviceBuffer(0, static_cast<std::size_t>(m) * static_cast<std::size_t>(shape.heads * shape.head_dim) * 4);
    workspace_bytes_ = (format.digits > 0 ? cuda::integer_attention::workspace_bytes : cuda::attention_workspace_bytes)(
        shape.heads, shape.head_dim, sequences, m, context);
    workspace_ = DeviceBuffer(0, workspace_bytes_);
  }

  double kv_bytes() const { return 2.0 * static_cast<double>(bytes_); }
  double flops() const {  // the keys that each row sees, twice: for scores and for values
    const double keys = rows_ * (context_ - rows_ + (rows_ + 1) / 2.0);
    return 2.0 * 2.0 * keys * sequences_ * shape_.heads * shape_.head_dim;
  }

  // Seconds of one layer.
  double attention_seconds(const cuda::AttentionSchedule& schedule) const {
    return seconds([&](std::size_t layer, void* stream) { cuda::attention_with(site(stream), call(layer), schedule); });
  }

  double int16_seconds(const cuda::integer_attention::Schedule& schedule, int repeats = kRepeats) const {
    return seconds(
        [&](std::size_t layer, void* stream) {
          cuda::integer_attention::attention_with(site(stream), call(layer), schedule, format_.digits);
        },
        repeats);
  }
  cuda::integer_attention::Schedule chosen_integer() const {
    return cuda::integer_attention::choose_schedule(site(nullptr), call(0), format_.digits);
  }

  cuda::AttentionSchedule chosen() const { return cuda::choose_attention_schedule(site(nullptr), call(0)); }
  bool can_stream() const { return cuda::attention_stream_stages(site(nullptr), call(0)) > 0; }

  double read_seconds() const {
    return seconds([&](std::size_t layer, void* stream) {
      backend().enqueue_read(keys_[layer].as<void>(), bytes_, workspace_.as<void>(), stream);
      backend().enqueue_read(values_[layer].as<void>(), bytes_, workspace_.as<void>(), stream);
    });
  }

 private:
  cuda::DeviceSite site(void* stream) const { return {{0, workspace_.as<void>(), workspace_bytes_, stream}}; }

  kernels::AttentionCall call(std::size_t layer) const {
    const std::int32_t m = sequences_ * rows_, cols = shape_.heads * shape_.head_dim;
    return {
        .q = {q_.as<float>(), m, cols, cols},
        .kv = {.keys = keys_[layer].as<void>(),
               .values = values_[layer].as<void>(),
               .dtype = format_.dtype,
               .kv_heads = shape_.kv_heads,
               .head_dim = shape_.head_dim,
               .page_size = kPageSize,
               .key_units = units_.as<void>(),
               .value_units = units_.as<void>()},
        .batch = {m, sequences_, rows_, context_, nullptr, positions_.as<std::int32_t>(), owners_.as<std::int32_t>(),
                  chunks_.as<kernels::Chunk>(), table_.as<std::int32_t>(), ceil_div(context_, kPageSize)},
        .heads = shape_.heads,
        .scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim)),
        .window = 0,
        .out = {out_.as<float>(), m, cols, cols}};
  }

  template <typename Work>
  double seconds(const Work& work, int repeats = kRepeats) const {
    const auto times = study::summarise(study::time_replays(backend(), repeats, [&](void* stream) {
      for (std::size_t layer = 0; layer < keys_.size(); ++layer) work(layer, stream);
    }));
    return times.median / static_cast<double>(keys_.size());
  }

  Shape shape_;
  Format format_;
  std::int32_t sequences_, context_, rows_;
  std::size_t bytes_ = 0, workspace_bytes_ = 0;
  std::vector<DeviceBuffer> keys_, values_;
  DeviceBuffer table_, chunks_, positions_, owners_, units_, q_, out_, workspace_;
};

std::string name_of(const cuda::AttentionSchedule& schedule) {
  constexpr const char* kNames[] = {"direct", "stream", "cluster"};
  return std::string(kNames[static_cast<int>(schedule.decode)]) + "/" + std::to_string(schedule.splits) +
         (schedule.prefetch ? "+" : "");
}

std::string name_of(const cuda::integer_attention::Schedule& schedule) {
  constexpr const char* kNames[] = {"direct", "stream", "cluster"};
  return std::string(kNames[static_cast<int>(schedule.decode)]) + "/" + std::to_string(schedule.splits);
}

void bench_decode(const Shape& shape, const Format& format, std::int32_t batch, std::int32_t context) {
  const Problem problem(shape, format, batch, context, 1);
  const cuda::AttentionSchedule chosen = problem.chosen();
  const cuda::integer_attention::Schedule chosen_integer = problem.chosen_integer();
  const double time = format.digits > 0 ? problem.int16_seconds(chosen_integer) : problem.attention_seconds(chosen),
               read = problem.read_seconds();
  std::printf("decode  %-13s kv %-4s batch %3d context %6d: %8.1f us, %5.2f TB/s; read %8.1f us; %.2f x the read; %s\n",
              shape.name, format.name, batch, context, time * 1e6, problem.kv_bytes() / time * 1e-12, read * 1e6,
              time / read, (format.digits > 0 ? name_of(chosen_integer) : name_of(chosen)).c_str());
  std::fflush(stdout);
}

// "+": prefetched.
void sweep_decode(const Shape& shape, const Format& format, std::int32_t batch, std::int32_t context) {
  const Problem problem(shape, format, batch, context, 1);
  std::printf("%-4s batch %3d context %6d: read %.1f", format.name, batch, context, problem.read_seconds() * 1e6);
  const cuda::AttentionSchedule chosen = problem.chosen();
  const auto print = [&](const cuda::AttentionSchedule& schedule) {
    std::printf(" %s %.1f", name_of(schedule).c_str(), problem.attention_seconds(schedule) * 1e6);
    std::fflush(stdout);
  };
  std::printf(" us; chosen:");
  print(chosen);
  std::printf(";");
  const std::int32_t key_blocks = ceil_div(context, kPageSize);
  for (const cuda::DecodeBy by : {cuda::DecodeBy::kDirect, cuda::DecodeBy::kStream}) {
    if (by == cuda::DecodeBy::kStream && !problem.can_stream()) continue;
    for (const std::int32_t splits : {1, 2, 3, 4, 6, 8, 16, 24, 32, 48, 64, 128, 256}) {
      const std::int64_t ctas = std::int64_t{batch} * shape.kv_heads * splits;
      if (splits > key_blocks || ctas < 64 || ctas > 4096) continue;
      for (const bool prefetch : {false, true})
        if (!prefetch || (by == cuda::DecodeBy::kDirect && ctas <= 400))
          print({cuda::AttentionPhases::kDecode, splits, false, prefetch, by});
    }
  }
  std::printf("\n");
}

void bench_prefill(const Shape& shape, const Format& format, std::int32_t context, std::int32_t rows) {
  const Problem problem(shape, format, 1, context, rows);
  const double time = format.digits > 0
                          ? problem.int16_seconds(problem.chosen_integer(), context > 16384 ? 5 : kRepeats)
                          : problem.attention_seconds(problem.chosen()),
               gigaflops = problem.flops() / time * 1e-9;
  std::printf("prefill %-13s kv %-4s rows %5d context %6d: %8.1f us, %6.1f TFLOP/s, %.2f of the peak\n", shape.name,
              format.name, rows, context, time * 1e6, gigaflops * 1e-3, gigaflops / backend().peak_fma_gigaflops());
  std::fflush(stdout);
}

void bench_more_prefill() {
  for (const Format& format : {kF32, kBf16}) {
    for (const std::int32_t context : {512, 2048, 8192}) bench_prefill(kShapes[0], format, context, context);
    bench_prefill(kShapes[0], format, 4096, 512);
    for (const std::int32_t context : {2048, 8192}) bench_prefill({"heads of 64", 32, 8, 64}, format, context, context);
    bench_prefill({"heads of 256", 16, 8, 256}, format, 4096, 4096);
  }
}

void bench_int16_prefill() {
  for (const std::int32_t context : {2048, 8192, 32768}) bench_prefill(kShapes[0], kInt16, context, context);
  bench_prefill(kShapes[0], kInt16, 8192, 512);
  bench_prefill({"heads of 64", 32, 8, 64}, kInt16, 8192, 8192);
  bench_prefill({"heads of 96", 32, 32, 96}, kInt16, 4096, 4096);
  bench_prefill({"heads of 256", 16, 8, 256}, kInt16, 4096, 4096);
}

void bench_int16() {
  bench_int16_prefill();
  bench_prefill(kShapes[0], kBf16, 2048, 2048);
  bench_prefill(kShapes[0], kBf16, 8192, 8192);
  for (const Format& format : {kInt16, kBf16})
    for (const std::int32_t batch : {1, 32, 64})
      for (const std::int32_t context : {1024, 8192}) bench_decode(kShapes[0], format, batch, context);
}

void bench_exact2() {
  for (const std::int32_t context : {2048, 8192, 32768}) bench_prefill(kShapes[0], kInt24, context, context);
  bench_prefill(kShapes[0], kInt24, 8192, 512);
  bench_prefill({"heads of 64", 32, 8, 64}, kInt24, 8192, 8192);
  bench_prefill({"heads of 96", 32, 32, 96}, kInt24, 4096, 4096);
  bench_prefill({"heads of 256", 16, 8, 256}, kInt24, 2048, 2048);
  bench_prefill(kShapes[0], kF32, 8192, 8192);
  for (const Format& format : {kInt24, kF32})
    for (const std::int32_t batch : {1, 32, 64})
      for (const std::int32_t context : {1024, 8192})
        if (batch < 64 || context < 8192) bench_decode(kShapes[0], format, batch, context);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool sweep = argc == 2 && std::string_view(argv[1]) == "--sweep";
    const bool prefill = argc == 2 && std::string_view(argv[1]) == "--prefill";
    const bool int16 = argc == 2 && std::string_view(argv[1]) == "--int16";
    const bool int16_prefill = argc == 2 && std::string_view(argv[1]) == "--int16-prefill";
    const bool exact2 = argc == 2 && std::string_view(argv[1]) == "--exact2";
    require(argc == 1 || sweep || prefill || int16 || int16_prefill || exact2,
            "the options are --sweep, --prefill, --int16, --int16-prefill and --exact2");
    std::printf("%s: one layer, graph replay, layers rotated past the L2\n", Context::cuda().description().c_str());
    if (prefill) {
      bench_more_prefill();
      return 0;
    }
    if (exact2) {
      bench_exact2();
      return 0;
    }
    if (int16 || int16_prefill) {
      int16 ? bench_int16() : bench_int16_prefill();
      return 0;
    }
    if (sweep) {
      for (const Format& format : {kF32, kBf16}) {
        for (const std::int32_t batch : {1, 2, 4, 8, 16, 24, 32, 48, 64, 128})
          sweep_decode(kShapes[0], format, batch, 1024);
        for (const std::int32_t context : {2048, 4096, 16384, 65536}) sweep_decode(kShapes[0], format, 1, context);
        sweep_decode(kShapes[0], format, 8, 8192);
      }
      return 0;
    }
    for (const Shape& shape : kShapes)
      for (const Format& format : {kF32, kBf16}) {
        for (const std::int32_t batch : {1, 4, 32, 128}) bench_decode(shape, format, batch, 1024);
        for (const std::int32_t context : {4096, 16384}) bench_decode(shape, format, 1, context);
        bench_prefill(shape, format, 2048, 2048);
        bench_prefill(shape, format, 4096, 512);
      }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attention_cuda: %s\n", error.what());
    return 1;
  }
}
