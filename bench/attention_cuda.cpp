// Times attention on the GPU for the shapes of Llama-3.2-3B and 8B: decode beside a plain read of the same keys and
// values, its floor; prefill beside the peak of fused multiply-adds. Layers rotate past the L2, graphs are replayed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/peak.hpp"
#include "kernels/cuda/timing.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/bench_linear.hpp"
#include "study/device_buffer.hpp"
#include "study/inputs.hpp"

namespace {

using namespace reprofuse;
using study::DeviceBuffer;

struct Shape {
  const char* name;
  std::int32_t heads, kv_heads, head_dim;
};
constexpr Shape kShapes[] = {{"llama-3.2-3b", 24, 8, 128}, {"llama-3.1-8b", 32, 8, 128}, {"qwen3-0.6b", 16, 8, 128}};
constexpr std::int32_t kPageSize = 64;
constexpr std::size_t kPastL2 = std::size_t{256} << 20;
constexpr int kRepeats = 21;

// What is not left to the library.
struct Forced {
  int splits = 0;  // 0: chosen
  std::optional<bool> prefetch;
};

// attention_cuda [SPLITS [prefetch|plain]]
Forced forced_by(int argc, char** argv) {
  Forced forced;
  if (argc > 1) forced.splits = std::atoi(argv[1]);
  if (argc > 2) {
    const std::string_view way = argv[2];
    require(way == "prefetch" || way == "plain", "'{}' is neither prefetch nor plain", way);
    forced.prefetch = way == "prefetch";
  }
  return forced;
}

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
  Problem(const Shape& shape, DType dtype, std::int32_t sequences, std::int32_t context, std::int32_t rows)
      : shape_(shape), dtype_(dtype), sequences_(sequences), context_(context), rows_(rows) {
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
    bytes_ = table.size() * static_cast<std::size_t>(shape.kv_heads * shape.head_dim * kPageSize) * dtype_bytes(dtype);
    ThreadPool pool(available_cores());
    const auto elements = static_cast<std::int64_t>(bytes_ / dtype_bytes(dtype));
    const std::vector<std::byte> noise = study::make_weights(1, dtype, 1, elements, pool).storage;
    for (std::size_t total = 0; total == 0 || total < kPastL2; total += 2 * bytes_) {
      keys_.push_back(upload(noise));
      values_.push_back(upload(noise));
    }
    q_ = upload(study::make_activations(2, m, shape.heads * shape.head_dim));
    out_ = DeviceBuffer(0, static_cast<std::size_t>(m) * static_cast<std::size_t>(shape.heads * shape.head_dim) * 4);
    workspace_bytes_ = cuda::attention_workspace_bytes(shape.heads, shape.head_dim, sequences, m, context);
    workspace_ = DeviceBuffer(0, workspace_bytes_);
  }

  double kv_bytes() const { return 2.0 * static_cast<double>(bytes_); }
  double flops() const {  // the keys that each row sees, twice: for scores and for values
    const double keys = rows_ * (context_ - rows_ + (rows_ + 1) / 2.0);
    return 2.0 * 2.0 * keys * sequences_ * shape_.heads * shape_.head_dim;
  }

  // Seconds of one layer.
  double attention_seconds(const Forced& forced) const {
    return seconds([&](std::size_t layer, void* stream) {
      const std::int32_t m = sequences_ * rows_, cols = shape_.heads * shape_.head_dim;
      const kernels::AttentionCall call{
          .q = {q_.as<float>(), m, cols, cols},
          .kv = {keys_[layer].as<void>(), values_[layer].as<void>(), dtype_, shape_.kv_heads, shape_.head_dim,
                 kPageSize},
          .batch = {m, sequences_, rows_, context_, nullptr, positions_.as<std::int32_t>(), owners_.as<std::int32_t>(),
                    chunks_.as<kernels::Chunk>(), table_.as<std::int32_t>(), ceil_div(context_, kPageSize)},
          .heads = shape_.heads,
          .scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim)),
          .window = 0,
          .out = {out_.as<float>(), m, cols, cols},
          .workspace = nullptr};
      const cuda::Launch launch{0, 0, workspace_.as<void>(), workspace_bytes_, stream};
      cuda::AttentionSchedule schedule = cuda::choose_attention_schedule(launch, call);
      if (forced.splits > 0 || forced.prefetch) schedule.cluster = false;
      if (forced.splits > 0) schedule.splits = forced.splits;
      if (forced.prefetch) schedule.prefetch = *forced.prefetch;
      cuda::attention_with(launch, call, schedule);
    });
  }

  double read_seconds() const {
    return seconds([&](std::size_t layer, void* stream) {
      cuda::enqueue_read(0, keys_[layer].as<void>(), bytes_, workspace_.as<void>(), stream);
      cuda::enqueue_read(0, values_[layer].as<void>(), bytes_, workspace_.as<void>(), stream);
    });
  }

 private:
  template <typename Work>
  double seconds(const Work& work) const {
    const auto times = study::summarise(cuda::time_replays(0, kRepeats, [&](void* stream) {
      for (std::size_t layer = 0; layer < keys_.size(); ++layer) work(layer, stream);
    }));
    return times.median / static_cast<double>(keys_.size());
  }

  Shape shape_;
  DType dtype_;
  std::int32_t sequences_, context_, rows_;
  std::size_t bytes_ = 0, workspace_bytes_ = 0;
  std::vector<DeviceBuffer> keys_, values_;
  DeviceBuffer table_, chunks_, positions_, owners_, q_, out_, workspace_;
};

void bench_decode(const Shape& shape, DType dtype, std::int32_t batch, std::int32_t context, const Forced& forced) {
  const Problem problem(shape, dtype, batch, context, 1);
  const double time = problem.attention_seconds(forced), read = problem.read_seconds();
  std::printf("decode  %-13s kv %-4s batch %3d context %6d: %8.1f us, %5.2f TB/s; read %8.1f us; %.2f x the read\n",
              shape.name, std::string(dtype_name(dtype)).c_str(), batch, context, time * 1e6,
              problem.kv_bytes() / time * 1e-12, read * 1e6, time / read);
  std::fflush(stdout);
}

void bench_prefill(const Shape& shape, DType dtype, std::int32_t context, std::int32_t rows) {
  const Problem problem(shape, dtype, 1, context, rows);
  const double time = problem.attention_seconds({}), gigaflops = problem.flops() / time * 1e-9;
  std::printf("prefill %-13s kv %-4s rows %5d context %6d: %8.1f us, %6.1f TFLOP/s, %.2f of the peak\n", shape.name,
              std::string(dtype_name(dtype)).c_str(), rows, context, time * 1e6, gigaflops * 1e-3,
              gigaflops / cuda::peak_fma_gigaflops(0));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Forced forced = forced_by(argc, argv);
    std::printf("%s: one layer, graph replay, layers rotated past the L2\n", Context::cuda().description().c_str());
    for (const Shape& shape : kShapes)
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const std::int32_t batch : {1, 4, 32, 128}) bench_decode(shape, dtype, batch, 1024, forced);
        for (const std::int32_t context : {4096, 16384}) bench_decode(shape, dtype, 1, context, forced);
        bench_prefill(shape, dtype, 2048, 2048);
        bench_prefill(shape, dtype, 4096, 512);
      }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attention_cuda: %s\n", error.what());
    return 1;
  }
}
