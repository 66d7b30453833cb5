#include "kernels/cpu/attention/attention.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/cpu/work_split.hpp"
#include "numerics/fma1.hpp"
#include "numerics/int16.hpp"

namespace reprofuse::cpu {
namespace {

using kernels::AttentionCall;
using kernels::Chunk;

constexpr std::int64_t kTaskLines = 48;   // a block of keys and values stays in cache while this many pass over it
constexpr std::int64_t kSplitRows = 4;    // with more, there are heads enough for every thread
constexpr std::int64_t kSplitBlocks = 4;  // fewer are not worth a task of their own
constexpr std::int64_t kSerialProducts = 1 << 17;  // fewer are done before another thread is awake

// Some of the lines of a chunk and a KV head. Line i is row i / group of the chunk and head i % group of the KV head's.
struct Task {
  const Chunk* chunk;
  std::int64_t kv_head;
  std::int64_t line_begin;
  std::int64_t line_end;
  std::int64_t block_begin;
  std::int64_t block_end;
};

struct KeyRange {
  std::int64_t begin;
  std::int64_t end;
  bool operator==(const KeyRange&) const = default;
};

// The softmax of every line over every block, kept apart when threads share the keys of a line.
class Partials {
 public:
  Partials(const AttentionCall& call, int key_block, void* workspace)
      : data_(static_cast<float*>(workspace)),
        head_dim_(call.kv.head_dim),
        blocks_(ceil_div<std::int64_t>(call.batch.max_keys, key_block)) {
    if (call.window > 0) blocks_ = std::min<std::int64_t>(blocks_, (call.window + kSplitRows) / key_block + 2);
  }
  std::size_t bytes(std::int64_t lines) const {
    return static_cast<std::size_t>(lines * blocks_ * (head_dim_ + kFacts)) * sizeof(float);
  }
  float* weighted(std::int64_t line, std::int64_t block) const { return at(line, block) + kFacts; }
  void save(std::int64_t line, std::int64_t block, const QueryLine& softmax) const {
    float* facts = at(line, block);
    facts[0] = softmax.max;
    facts[1] = softmax.sum;
    facts[2] = softmax.scale;
  }
  QueryLine load(std::int64_t line, std::int64_t block) const {
    const float* facts = at(line, block);
    return {.query = nullptr, .weighted = weighted(line, block), .max = facts[0], .sum = facts[1], .scale = facts[2]};
  }

 private:
  static constexpr std::int64_t kFacts = 3;  // before the weighted values
  float* at(std::int64_t line, std::int64_t block) const {
    return data_ + (line * blocks_ + block) * (head_dim_ + kFacts);
  }

  float* data_;
  std::int64_t head_dim_;
  std::int64_t blocks_;
};

class Attention {
 public:
  Attention(const AttentionKernels& kernels, ThreadPool& pool, const AttentionCall& call, void* workspace)
      : call_(call),
        kernels_(kernels),
        key_block_(kernels.key_block),
        pool_(pool),
        group_(call.heads / call.kv.kv_heads),
        can_split_(workspace != nullptr && pool.threads() > 1 && call.batch.rows <= kSplitRows),
        partials_(call, kernels.key_block, workspace) {}

  std::optional<kernels::NonFinite> run();

 private:
  KeyRange visible(const Chunk& chunk, std::int64_t row) const;
  KeyRange blocks_of(const Chunk& chunk, std::int64_t first_row, std::int64_t last_row) const;
  std::vector<Task> whole_tasks() const;
  std::vector<Task> split(const std::vector<Task>& tasks) const;
  std::int64_t products(const std::vector<Task>& tasks) const;
  KeyBlock find_block(const Task& task, std::int64_t block, KeyRange keys) const;
  std::int64_t partial_line(const Chunk& chunk, std::int64_t row, std::int64_t head) const {
    return (chunk.first_row + row) * call_.heads + head;
  }
  std::int64_t partial_block(const Chunk& chunk, std::int64_t block) const {
    return block - blocks_of(chunk, 0, 0).begin;
  }
  void run_task(const Task& task);
  void run_blocks(const Task& task, QueryLine* lines, const KeyRange* keys);
  void run_block(const Task& task, std::int64_t block, QueryLine* lines, const KeyRange* keys);
  void run_tiles(const Task& task, AttentionTile tile, std::int64_t first, std::int64_t count, QueryLine* lines);
  void merge_line(const Chunk& chunk, std::int64_t row, std::int64_t head);

  const AttentionCall& call_;
  const AttentionKernels& kernels_;
  std::int64_t key_block_;
  ThreadPool& pool_;
  std::int64_t group_;
  bool can_split_;
  Partials partials_;
  bool split_ = false;  // every block's softmax goes to partials_, to be merged when all are there
  FirstNonFinite non_finite_;
};

KeyRange Attention::visible(const Chunk& chunk, std::int64_t row) const {
  const std::int64_t end = chunk.first_position + row + 1;
  return {.begin = call_.window > 0 ? std::max<std::int64_t>(0, end - call_.window) : 0, .end = end};
}

KeyRange Attention::blocks_of(const Chunk& chunk, std::int64_t first_row, std::int64_t last_row) const {
  return {.begin = visible(chunk, first_row).begin / key_block_,
          .end = ceil_div<std::int64_t>(visible(chunk, last_row).end, key_block_)};
}

// Whole rows in full tiles where they fit, and the longest first, so that no thread is left with one at the end.
std::vector<Task> Attention::whole_tasks() const {
  const std::int64_t fair = std::int64_t{call_.batch.rows} * call_.heads / (pool_.threads() * kTasksPerThread);
  const std::int64_t tiles = std::lcm(group_, std::int64_t{kernels_.tile_lines});
  const std::int64_t unit = tiles <= std::min(fair, kTaskLines) ? tiles : std::min(group_, kTaskLines);
  const std::int64_t per_task = std::max(unit, std::min(fair, kTaskLines) / unit * unit);
  std::vector<Task> tasks;
  for (std::int32_t c = 0; c < call_.batch.chunk_count; ++c) {
    const Chunk& chunk = call_.batch.chunks[c];
    const std::int64_t lines = chunk.rows * group_;
    for (std::int64_t kv_head = 0; kv_head < call_.kv.kv_heads; ++kv_head)
      for (std::int64_t begin = (lines - 1) / per_task * per_task; begin >= 0; begin -= per_task) {
        const std::int64_t end = std::min(lines, begin + per_task);
        const KeyRange blocks = blocks_of(chunk, begin / group_, (end - 1) / group_);
        tasks.push_back({&chunk, kv_head, begin, end, blocks.begin, blocks.end});
      }
  }
  return tasks;
}

// Cuts the keys of every task until there are tasks enough for the threads.
std::vector<Task> Attention::split(const std::vector<Task>& tasks) const {
  const std::int64_t wanted = pool_.threads() * kTasksPerThread;
  const auto cuts = ceil_div(wanted, static_cast<std::int64_t>(tasks.size()));
  std::vector<Task> parts;
  for (const Task& task : tasks) {
    const std::int64_t blocks = std::max(kSplitBlocks, ceil_div(task.block_end - task.block_begin, cuts));
    for (std::int64_t begin = task.block_begin; begin < task.block_end; begin += blocks) {
      parts.push_back(task);
      parts.back().block_begin = begin;
      parts.back().block_end = std::min(task.block_end, begin + blocks);
    }
  }
  return parts;
}

std::optional<kernels::NonFinite> Attention::run() {
  std::vector<Task> tasks = whole_tasks();
  if (products(tasks) < kSerialProducts) {
    for (const Task& task : tasks) run_task(task);
    return non_finite_.get();
  }
  if (can_split_) {
    std::vector<Task> parts = split(tasks);
    split_ = parts.size() > tasks.size();
    if (split_) tasks = std::move(parts);
  }
  pool_.parallel_for(static_cast<std::int64_t>(tasks.size()),
                     [&](std::int64_t i, int) { run_task(tasks[static_cast<std::size_t>(i)]); });
  if (split_)
    for (std::int32_t c = 0; c < call_.batch.chunk_count; ++c) {
      const Chunk& chunk = call_.batch.chunks[c];
      pool_.parallel_for(std::int64_t{chunk.rows} * call_.heads,
                         [&](std::int64_t i, int) { merge_line(chunk, i / call_.heads, i % call_.heads); });
    }
  return non_finite_.get();
}

// A bound on the fused multiply-adds of the scores, with whole blocks.
std::int64_t Attention::products(const std::vector<Task>& tasks) const {
  std::int64_t blocks = 0;
  for (const Task& task : tasks) blocks += (task.line_end - task.line_begin) * (task.block_end - task.block_begin);
  return blocks * key_block_ * call_.kv.head_dim;
}

void Attention::run_task(const Task& task) {
  QueryLine lines[kTaskLines];
  KeyRange keys[kTaskLines];
  const std::int64_t count = task.line_end - task.line_begin;
  const std::int64_t head_dim = call_.kv.head_dim;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = (task.line_begin + i) / group_;
    const std::int64_t head = task.kv_head * group_ + (task.line_begin + i) % group_;
    const std::int64_t m = task.chunk->first_row + row;
    keys[i] = visible(*task.chunk, row);
    lines[i] = {.query = call_.q.data + m * call_.q.stride + head * head_dim,
                .weighted = call_.out.data + m * call_.out.stride + head * head_dim,
                .max = 0.0F,
                .sum = 0.0F};
  }
  run_blocks(task, lines, keys);
  if (!split_)
    for (std::int64_t i = 0; i < count; ++i) kernels_.divide(lines[i], head_dim);
}

void Attention::run_blocks(const Task& task, QueryLine* lines, const KeyRange* keys) {
  for (std::int64_t block = task.block_begin; block < task.block_end; ++block) {
    if (!split_) {
      run_block(task, block, lines, keys);
      continue;
    }
    const std::int64_t place = partial_block(*task.chunk, block);
    const auto of_line = [&](std::int64_t line) {
      return partial_line(*task.chunk, line / group_, task.kv_head * group_ + line % group_);
    };
    for (std::int64_t line = task.line_begin; line < task.line_end; ++line)
      lines[line - task.line_begin].weighted = partials_.weighted(of_line(line), place);
    run_block(task, block, lines, keys);
    for (std::int64_t line = task.line_begin; line < task.line_end; ++line)
      partials_.save(of_line(line), place, lines[line - task.line_begin]);
  }
}

// The blocks of one line, left to right.
void Attention::merge_line(const Chunk& chunk, std::int64_t row, std::int64_t head) {
  const std::int64_t head_dim = call_.kv.head_dim;
  const KeyRange blocks = blocks_of(chunk, row, row);
  const auto softmax_of = [&](std::int64_t block) {
    return partials_.load(partial_line(chunk, row, head), partial_block(chunk, block));
  };
  QueryLine total = softmax_of(blocks.begin);
  kernels_.start(total, head_dim);
  for (std::int64_t block = blocks.begin + 1; block < blocks.end; ++block)
    kernels_.merge(total, softmax_of(block), head_dim);
  kernels_.divide(total, head_dim);
  std::copy_n(total.weighted, head_dim, call_.out.data + (chunk.first_row + row) * call_.out.stride + head * head_dim);
}

// Only pages with a key that some line sees are looked up: others may not exist yet, or no longer.
KeyBlock Attention::find_block(const Task& task, std::int64_t block, KeyRange keys) const {
  KeyBlock found{.keys = {},
                 .values = {},
                 .key_units = {},
                 .value_units = {},
                 .key_lows = {},
                 .value_lows = {},
                 .page_size = call_.kv.page_size,
                 .head_dim = call_.kv.head_dim};
  const int groups = static_cast<int>(key_block_) / kKeyGroup;
  const std::int64_t first = std::max(keys.begin, block * key_block_) / kKeyGroup;
  const std::int64_t last = (std::min(keys.end, (block + 1) * key_block_) - 1) / kKeyGroup;
  for (int g = 0; g < groups; ++g) {
    const std::int64_t seen = std::clamp(block * groups + g, first, last);
    const KvPlace place =
        kernels_.find_place(call_.kv, call_.batch, task.chunk->sequence, seen * kKeyGroup, task.kv_head);
    found.keys[g] = place.key;
    found.values[g] = place.value;
    found.key_units[g] = place.key_unit;
    found.value_units[g] = place.value_unit;
    found.key_lows[g] = place.key_low;
    found.value_lows[g] = place.value_low;
  }
  return found;
}

void Attention::run_block(const Task& task, std::int64_t block, QueryLine* lines, const KeyRange* keys) {
  const std::int64_t count = task.line_end - task.line_begin;
  const std::int64_t start = block * key_block_;
  const KeyBlock found = find_block(task, block, {keys[0].begin, keys[count - 1].end});
  const auto in_block = [&](std::int64_t i) {
    return KeyRange{std::max<std::int64_t>(keys[i].begin - start, 0),
                    std::min<std::int64_t>(keys[i].end - start, key_block_)};
  };
  const auto starts = [&](std::int64_t i) { return split_ || keys[i].begin >= start; };
  for (std::int64_t i = 0, next = 0; i < count; i = next) {
    const KeyRange range = in_block(i);
    while (next < count && in_block(next) == range && starts(next) == starts(i)) ++next;
    if (range.begin >= range.end) continue;
    run_tiles(task,
              {.block = &found,
               .first = static_cast<int>(range.begin),
               .last = static_cast<int>(range.end),
               .scale = call_.scale,
               .lines = nullptr,
               .count = 0,
               .start = starts(i),
               .apart = split_},
              i, next - i, lines);
  }
}

// Lines [first, first + count) see the same keys of the block: full tiles of them, and what is left in even ones.
void Attention::run_tiles(const Task& task, AttentionTile tile, std::int64_t first, std::int64_t count,
                          QueryLine* lines) {
  const std::int64_t full = kernels_.tile_lines;
  for (std::int64_t begin = first, left = count; left > 0; begin += tile.count, left -= tile.count) {
    tile.lines = lines + begin;
    tile.count = static_cast<int>(left >= 2 * full ? full : ceil_div(left, ceil_div(left, full)));
    const unsigned non_finite = kernels_.tile(tile);
    for (std::int64_t i = begin; non_finite != 0 && i < begin + tile.count; ++i)
      if (non_finite >> (i - begin) & 1U)
        non_finite_.add({.row = task.chunk->first_row + (task.line_begin + i) / group_,
                         .column = task.kv_head * group_ + (task.line_begin + i) % group_});
  }
}

std::size_t partial_bytes(const AttentionCall& call, int key_block) {
  return Partials(call, key_block, nullptr).bytes(std::min<std::int64_t>(call.batch.rows, kSplitRows) * call.heads);
}

std::optional<kernels::NonFinite> attend(const CpuDevice& device, const AttentionCall& call, void* workspace,
                                         const AttentionKernels& scalar, const AttentionKernels* simd) {
  const AttentionKernels* kernels = device.isa == Isa::kScalar ? &scalar : simd;
  invariant(kernels != nullptr, "a context holds an instruction set that the build has no kernels for");
  return Attention(*kernels, *device.pool, call, workspace).run();
}

static_assert(int16::kKeyBlock <= kMaxKeyGroups * kKeyGroup);

}  // namespace

std::optional<kernels::NonFinite> attention(const CpuDevice& device, const AttentionCall& call, void* workspace) {
  if (call.kv.dtype == DType::kBF16)
    return attend(device, call, workspace, attention_bf16_scalar(), attention_bf16_simd(device.isa));
  return attend(device, call, workspace, attention_f32_scalar(), attention_f32_simd(device.isa));
}

std::size_t attention_workspace_bytes(const AttentionCall& call) {
  return partial_bytes(call, fma1::kKeyBlock);
}

std::optional<kernels::NonFinite> attention_int16(const CpuDevice& device, const AttentionCall& call, void* workspace) {
  return attend(device, call, workspace, attention_int16_scalar(), attention_int16_simd(device.isa));
}

std::optional<kernels::NonFinite> attention_exact2(const CpuDevice& device, const AttentionCall& call,
                                                   void* workspace) {
  return attend(device, call, workspace, attention_exact2_scalar(), attention_exact2_simd(device.isa));
}

std::size_t attention_integer_workspace_bytes(const AttentionCall& call) {
  return partial_bytes(call, int16::kKeyBlock);
}

}  // namespace reprofuse::cpu
